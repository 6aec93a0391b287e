#!/usr/bin/env python3
"""Writes the golden data: `python3 datasets/golden/generate.py --out datasets/golden [--only NAME] [--seed N]`.

Python 3.9 or newer without packages; the same seed gives the same bytes with any of them.
"""
import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import coding
import design
import research
import story
import support
from kit import LEVELS

SEED = 20240611
DOMAINS = (("coding", coding), ("research", research), ("support", support), ("design", design))
REPOSITORIES = {
    "coding": "harbour-ledger tidal-index quarry-mail lantern-sync copper-gate meadow-cron orchard-vcs flint-parser gannet-queue".split(),
    "research": "polar-terns river-silt old-bells night-trains glass-trade school-gardens salt-roads moth-atlas winter-markets".split(),
    "support": "violet-telecom birch-furniture swift-ferries cobalt-cloud maple-lamps northstar-travel pine-phones amber-parcels".split(),
    "design": "quiet-clinic paper-museum rain-courtyard folding-lamp metro-signs seed-library harbour-hall bakery-app".split(),
}
LENGTHS = {
    "coding": [20, 26, 30, 34, 40, 44, 48, 52, 56, 62, 70, 82, 98, 120, 150, 200, 24, 50],
    "research": [22, 24, 28, 32, 36, 42, 46, 50, 54, 60, 66, 78, 92, 110, 140, 180, 26, 48],
    "support": [20, 22, 24, 28, 32, 36, 40, 44, 48, 54, 60, 68, 80, 100, 130, 50],
    "design": [21, 24, 27, 30, 35, 39, 43, 47, 51, 55, 63, 74, 88, 105, 160, 46],
}


def runs():
    """(name, domain, module, arguments) of every run, in order."""
    for d, (domain, tale) in enumerate(DOMAINS):
        repositories = REPOSITORIES[domain]
        for i, n in enumerate(LENGTHS[domain]):
            where = i % len(repositories)
            # A far use needs a long run.
            far = ("high", "mid", "high", "low") if n >= 50 else ("mid", "low") if n >= 26 else ("low",)
            knobs = {"distance": far[(i + 2 * d + i // 3) % len(far)],
                     "noise": LEVELS[(i + i // 3 + d) % 3], "paraphrase": LEVELS[(i // 2 + d) % 3], "rarity": LEVELS[(where + d) % 3]}
            yield "golden-%s-%02d" % (domain, i + 1), domain, tale, {
                "repo": "golden/" + repositories[where], "knobs": knobs, "n_turns": n, "plot": i + d, "shift": i * 3 + d,
                "hostile": 3 if i % 4 == 1 else 0, "goals": (0, 1, 0, 0, 2, 0, 0, 1, 0)[i % 9]}


def make(seed, only=None):
    """(domain, line) of every run that is asked for."""
    for number, (name, domain, tale, arguments) in enumerate(runs()):
        if only in (None, name):
            told = story.Story(tale, domain, name, seed=seed * 1000 + number, **arguments).run()
            yield domain, json.dumps(told, ensure_ascii=False, separators=(",", ":")) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent, help="folder for coding.jsonl and the others")
    parser.add_argument("--only", help="a task id: print this run alone to stdout, write nothing")
    parser.add_argument("--seed", type=int, default=SEED, help="default %(default)s, that of the files in the repository")
    args = parser.parse_args()
    lines = {}
    for domain, line in make(args.seed, args.only):
        lines.setdefault(domain, []).append(line)
    if args.only:
        if not lines:
            parser.error("no run is named %s" % args.only)
        sys.stdout.buffer.write("".join(sum(lines.values(), [])).encode("utf-8"))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    for domain, rows in lines.items():
        (args.out / (domain + ".jsonl")).write_bytes("".join(rows).encode("utf-8"))


if __name__ == "__main__":
    main()
