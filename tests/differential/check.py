"""Holds the models of the rules against the recordings of the libraries: check.py [--table] [NAME].
`check.py --recorded FOLDER` holds recordings made anew, of some lists, against those that are kept.

Prints one line a policy: lists, in how many it fired, in how many twice and more, in how many of them lists the model makes
the recorded line. Lists of real logs are left out where TRAJPRESS_LOGS is not set. Exits with 1 where one is unequal.
"""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "models")]
import lists  # noqa: E402
from harness import compact, record  # noqa: E402


def recorded_anew(folder):
    bad, found = 0, sorted(Path(folder).glob("*.zst"))
    for path in found:
        kept, anew = ({line.get("list"): line for line in lists.read_zst(f)} for f in (HERE / "recordings" / path.name, path))
        wrong = [name or "settings" for name, line in anew.items() if kept.get(name) != line]
        bad += len(wrong)
        print(f"{path.name.split('.jsonl')[0]:38} lists {len(anew) - 1} as recorded {len(anew) - 1 - len(wrong)}", *wrong[:5])
    sys.exit(bad > 0 or not found)


def main():
    if sys.argv[1:2] == ["--recorded"]:
        recorded_anew(sys.argv[2])
    names = [a for a in sys.argv[1:] if a != "--table"]
    table, only = "--table" in sys.argv, names[0] if names else ""
    models = {}
    for path in sorted((HERE / "models").glob("rules_*.py")):
        models |= importlib.import_module(path.stem).MODELS
    every, bad = {one["id"]: one for one in lists.all_lists()}, 0
    if table:
        print("| policy | package | settings | lists | fired | twice | equal |\n| --- | --- | --- | --: | --: | --: | --: |")
    for path in sorted((HERE / "recordings").glob("*.zst")):
        header, *lines = lists.read_zst(path)
        name, lines = header["policy"], [line for line in lines if line["list"] in every]
        if only not in name:
            continue
        fired, twice = (sum(len(line["fired"]) > n for line in lines) for n in (0, 1))
        wrong = [line["list"] for line in lines if record(models[name](**header["settings"]), every[line["list"]]) != line]
        bad += len(wrong)
        counts = len(lines), fired, twice, len(lines) - len(wrong)
        if table:
            package = f"{header['package']} {header['version']}"
            print("|", " | ".join([f"`{name}`", package, f"`{compact(header['settings'])}`", *map(str, counts)]), "|", flush=True)
        else:
            print(f"{name:38} lists %d fired %d twice %d equal %d" % counts, *wrong[:5], flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
