"""Holds the models of the rules against the recordings of the libraries: check.py [NAME]."""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "models")]
import lists  # noqa: E402
from harness import record  # noqa: E402


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    models = {}
    for path in sorted((HERE / "models").glob("*.py")):
        models |= getattr(importlib.import_module(path.stem), "MODELS", {})
    every = {one["id"]: one for one in lists.all_lists()}
    for path in sorted((HERE / "recordings").glob("*.zst")):
        name = path.name.split(".jsonl")[0]
        if only not in name:
            continue
        header, *lines = lists.read_zst(path)
        lines = [line for line in lines if line["list"] in every]
        fired, twice = (sum(len(line["fired"]) > n for line in lines) for n in (0, 1))
        if name not in models:
            print(f"{name:38} {header['version']:8} lists {len(lines)} fired {fired} twice {twice} no model", flush=True)
            continue
        wrong = [line["list"] for line in lines if record(models[name](**header["settings"]), every[line["list"]]) != line]
        print(f"{name:38} {header['version']:8} lists {len(lines)} fired {fired} twice {twice} "
              f"equal {len(lines) - len(wrong)} {' '.join(wrong[:5])}", flush=True)


if __name__ == "__main__":
    main()
