#!/usr/bin/env python3
"""What this folder's README needs beside the report's tables: `python3 reports/questions/tables.py RUN`, for a run of rules.toml. Needs pyarrow.

How many tokens stood there after the last compression of a run, and the scores at the first and the third point on the same runs: those that
have both. Pooled by weight, as in the report; the intervals of the changes are those of the claims.
"""
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

METRICS = ("salience_recall", "salience_precision", "constraint_retention", "probe_support", "item_recall", "item_precision")
# They leave earlier text of their own alone, so that their last compression does not say what stands there.
ADD = ("random", "shuffle", "echo", "oracle", "atom-bag")


def rows(run, name, columns):
    return pq.read_table(Path(run) / (name + ".parquet"), columns=columns).to_pylist()


def main(args):
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    run = args[0]
    labels = {r["variant"]: r["label"] for r in rows(run, "variants", ["variant", "label"])}
    last = {}
    for r in rows(run, "events", ["variant", "trajectory", "event", "kept_tokens"]):
        key = (r["variant"], r["trajectory"])
        if key not in last or r["event"] > last[key][0]:
            last[key] = (r["event"], r["kept_tokens"])
    print("# Tables of rules.toml beside the report\n\n## Tokens that a strategy's own text had after the last compression of a run\n")
    print("| variant | mean | median | most | runs |\n| --- | ---: | ---: | ---: | ---: |")
    for variant, label in sorted(labels.items(), key=lambda x: x[1]):
        kept = sorted(tokens for (v, _), (_, tokens) in last.items() if v == variant)
        if kept and not label.startswith(ADD):
            middle = (kept[(len(kept) - 1) // 2] + kept[len(kept) // 2]) / 2
            print("| %s | %.0f | %.0f | %d | %d |" % (label, sum(kept) / len(kept), middle, kept[-1], len(kept)))
    at = defaultdict(dict)
    for r in rows(run, "scores", ["variant", "trajectory", "metric", "stratum", "value", "weight"]):
        if r["metric"] in METRICS and r["stratum"] in ("point=1", "point=3") and r["value"] is not None:
            at[r["metric"], r["variant"], r["stratum"][-1]][r["trajectory"]] = (r["value"], r["weight"])
    print("\n## First and third compression, on the runs that have a score at both")
    for metric in METRICS:
        print("\n### %s\n\n| variant | point 1 | point 3 | change a compression | runs |\n| --- | ---: | ---: | ---: | ---: |" % metric)
        for variant, label in sorted(labels.items(), key=lambda x: x[1]):
            one, three = at[metric, variant, "1"], at[metric, variant, "3"]
            both = one.keys() & three.keys()
            pooled = [sum(s[t][0] * s[t][1] for t in both) / w for s in (one, three) if (w := sum(s[t][1] for t in both))]
            if len(pooled) == 2:
                print("| %s | %.3f | %.3f | %.3f | %d |" % (label, *pooled, (pooled[1] - pooled[0]) / 2, len(both)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
