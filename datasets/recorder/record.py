#!/usr/bin/env python3
"""Remakes all built-in data: `python3 datasets/recorder/record.py --out DIR`.

Writes DIR/coding, DIR/support and DIR/templates. The same machine gives the
same bytes each time. Needs Python 3.9, bash, git, make, gcc and coreutils.
"""
import argparse
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import dialogue  # noqa: E402
import writers  # noqa: E402


def modules(folder):
    return [importlib.import_module("%s.%s" % (folder, p.stem)) for p in sorted((HERE / folder).glob("*.py"))
            if not p.stem.startswith("_")]


def record(only):
    """Yield (relative path, text, run) for every coding run; a path may occur again, then lines are added."""
    for module in modules("scenarios"):
        for script in module.SCRIPTS:
            if only and only not in script.__name__:
                continue
            run = script()
            try:
                if run.form == "mini":
                    yield "coding/%s.traj.json" % run.task_id, writers.mini_document(run), run
                elif run.form == "chat":
                    yield "coding/chat-runs.jsonl", writers.chat_line(run), run
                else:
                    yield "coding/%s.jsonl" % run.task_id, writers.annotated_line(run), run
            finally:
                run.close()


def write_all(out, only=None):
    files, table = {}, []
    for path, text, run in record(only):
        files[path] = files.get(path, "") + text
        table.append((path, run.task_id, run.turns, run.resolved))
    for module in modules("dialogues"):
        for talk in module.TALKS:
            if only and only not in talk.task_id:
                continue
            path = "%s/%s.jsonl" % (module.FOLDER, talk.task_id)
            files[path] = dialogue.line(talk)
            table.append((path, talk.task_id, talk.turns, None))
    for path, text in files.items():
        file = Path(out) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="folder to write into")
    parser.add_argument("--only", help="record only the runs whose name contains this")
    args = parser.parse_args()
    for path, task, turns, resolved in write_all(args.out, args.only):
        print("%-46s %-26s %3d turns%s" % (path, task, turns, "" if resolved is None else "  resolved" if resolved else "  not resolved"))


if __name__ == "__main__":
    main()
