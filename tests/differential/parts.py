"""What the models of the rules say of parts of lists: for each line of stdin ({"policy", "list", "keep"}) the line that the library
would record of these messages of that list alone. `smallest.jsonl` holds the smallest parts on which a preset differs.

`parts.py check` holds the lines of that file to the models.
"""

import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "models")]
import lists  # noqa: E402
from harness import compact, record  # noqa: E402


def models():
    """The model of each policy, with the settings of its recording."""
    kinds = {}
    for path in sorted((HERE / "models").glob("rules_*.py")):
        kinds |= importlib.import_module(path.stem).MODELS
    settings = {path.name.split(".jsonl")[0]: path for path in (HERE / "recordings").glob("*.zst")}
    return {name: (kind, lists.read_zst(settings[name])[0]["settings"]) for name, kind in kinds.items() if name in settings}


def main():
    known, every = models(), {one["id"]: one for one in lists.all_lists()}

    def line(part):
        kind, settings = known[part["policy"]]
        messages = [every[part["list"]]["messages"][at] for at in part["keep"]]
        return record(kind(**settings), {"id": part["list"], "messages": messages})

    if sys.argv[1:] == ["check"]:
        parts = [json.loads(text) for text in (HERE / "smallest.jsonl").read_text().splitlines()]
        wrong = [part["policy"] for part in parts if line(part) != part["line"]]
        print(f"smallest lists: {len(parts)}, as their models have them {len(parts) - len(wrong)}", *wrong)
        sys.exit(bool(wrong))
    for text in sys.stdin:
        print(compact(line(json.loads(text))), flush=True)


if __name__ == "__main__":
    main()
