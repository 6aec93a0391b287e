#!/usr/bin/env python3
"""A model against none, both triggers together: `python3 reports/summaries/pooled.py RUN...`. Needs pyarrow.

RUN is a run of by_model.toml or of tool_log_by_model.toml. Prints two tables. First, of each strategy: exposed needs and logs without and with
the model; efficiency of both, and its difference; retention of exposed needs with the model less without, over the logs and triggers that have
exposed needs in both; in how many logs it is lower, equal and higher; the two-sided sign test of these, and it after Holm over the strategies.
Intervals by bootstrap over logs, 95 %. Fewer than ten logs are too few for an interval to be trusted: `trajpress report` gives none then. Second,
what the model read and wrote.

Retention is weighted by needs as in the report; efficiency is (variant - random) / (oracle - random) of the weighted sums.
"""
import math
import random
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

STRATUM = "set=exposed tail=10"
DRAWS = 2000


def rows(run, name, columns):
    return pq.read_table(Path(run) / (name + ".parquet"), columns=columns).to_pylist()


def cells_of(run):
    """{(strategy, model or ""): {log: {trigger: (value, floor, ceiling, weight, n)}}}"""
    variants = {v["variant"]: v for v in rows(run, "variants", ["variant", "strategy", "trigger", "model"])}
    found = defaultdict(lambda: defaultdict(dict))
    for r in rows(run, "scores", ["variant", "trajectory", "event", "metric", "stratum", "value", "floor", "ceiling", "weight", "n"]):
        if r["event"] is None and r["metric"] == "need_retention" and r["stratum"] == STRATUM and r["value"] is not None:
            v = variants[r["variant"]]
            found[v["strategy"], v["model"] or ""][r["trajectory"]][v["trigger"]] = tuple(r[k] for k in ("value", "floor", "ceiling", "weight", "n"))
    return found


def retention(cells):
    weight = sum(c[3] for c in cells)
    return sum(c[0] * c[3] for c in cells) / weight if weight else None


def efficiency(cells):
    cells = [c for c in cells if c[1] is not None and c[2] is not None]
    room = sum((c[2] - c[1]) * c[3] for c in cells)
    return sum((c[0] - c[1]) * c[3] for c in cells) / room if room > 1e-9 else None


def interval(of, logs):
    draw, values = random.Random(1), []
    for _ in range(DRAWS):
        value = of(draw.choices(logs, k=len(logs)))
        if value is not None:
            values.append(value)
    values.sort()
    return of(logs), values[int(0.025 * len(values))], values[int(0.975 * len(values)) - 1]


def less(a, b):
    return None if a is None or b is None else b - a


def sign_test(lower, higher):
    n, k = lower + higher, min(lower, higher)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2 ** n)


def holm(values):
    """Adjusted, in the order given."""
    order, adjusted, top = sorted(range(len(values)), key=values.__getitem__), [0.0] * len(values), 0.0
    for rank, at in enumerate(order):
        top = max(top, min(1.0, values[at] * (len(values) - rank)))
        adjusted[at] = top
    return adjusted


def main(args):
    if not args:
        print(__doc__, file=sys.stderr)
        return 2
    show = lambda told: "%+.2f [%+.2f, %+.2f]" % told  # noqa: E731
    lines, signs, work = [], [], []
    for run in args:
        found = cells_of(run)
        for strategy, model in sorted(key for key in found if key[1] and (key[0], "") in found):
            plain, with_model = found[strategy, ""], found[strategy, model]
            logs = sorted(set(plain) | set(with_model))
            flat = lambda of, picked: [cell for log in picked for cell in of.get(log, {}).values()]  # noqa: E731
            both = [(log, trigger) for log in sorted(plain) for trigger in plain[log] if trigger in with_model.get(log, {})]
            side = lambda of, picked: [of[log][trigger] for log in picked for own, trigger in both if own == log]  # noqa: E731
            shared = sorted({log for log, _ in both})
            of_log = [less(retention(side(plain, [log])), retention(side(with_model, [log]))) for log in shared]
            counts = tuple(sum(test(d) for d in of_log) for test in (lambda d: d < -1e-9, lambda d: abs(d) <= 1e-9, lambda d: d > 1e-9))
            signs.append(sign_test(counts[0], counts[2]))
            count = lambda of: "%d, %d" % (sum(c[4] for c in flat(of, logs)), len(of))  # noqa: E731
            lines.append("| %s | %s | %s | %s | %s | %s | %s | %d, %d, %d | %.2f" % (
                strategy, count(plain), count(with_model), show(interval(lambda p: efficiency(flat(plain, p)), logs)),
                show(interval(lambda p: efficiency(flat(with_model, p)), logs)),
                show(interval(lambda p: less(efficiency(flat(plain, p)), efficiency(flat(with_model, p))), logs)),
                show(interval(lambda p: less(retention(side(plain, p)), retention(side(with_model, p))), shared)), *counts, signs[-1]))
        work += worked(run)
    print("| strategy | needs, logs without | with | efficiency without | with | difference | retention with less without | logs lower, equal, higher | sign test | Holm |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join("%s | %.2f |" % pair for pair in zip(lines, holm(signs))))
    print("\n| strategy | events | calls | tokens read | written | fabrication | quotations found | unusable answers | fallbacks |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" + "\n".join(work))
    return 0


def worked(run):
    variants = {v["variant"]: v["strategy"] for v in rows(run, "variants", ["variant", "strategy", "model"]) if v["model"]}
    events, honest = defaultdict(list), defaultdict(lambda: [0.0, 0.0, 0])
    for e in rows(run, "events", ["variant", "model_calls", "model_tokens_in", "model_tokens_out", "fallback", "degenerate"]):
        if e["variant"] in variants:
            events[variants[e["variant"]]].append(e)
    for r in rows(run, "scores", ["variant", "event", "metric", "stratum", "value", "weight", "n"]):
        if r["variant"] in variants and r["event"] is None and not r["stratum"] and r["value"] is not None:
            of = honest[variants[r["variant"]], r["metric"]]
            of[0], of[1], of[2] = of[0] + r["value"] * r["weight"], of[1] + r["weight"], of[2] + r["n"]
    lines = []
    for strategy, all_of in sorted(events.items()):
        mean = lambda key: sum(e[key] for e in all_of) / len(all_of)  # noqa: E731
        share = lambda metric: "%.2f (%s)" % (honest[strategy, metric][0] / honest[strategy, metric][1], format(honest[strategy, metric][2], ",")) if honest[strategy, metric][1] else "-"  # noqa: E731
        lines.append("| %s | %d | %.1f | %s | %s | %s | %s | %d | %d |" % (
            strategy, len(all_of), mean("model_calls"), format(round(mean("model_tokens_in")), ","), format(round(mean("model_tokens_out")), ","),
            share("fabrication_rate"), share("quote_fidelity"), sum(bool(e["degenerate"]) for e in all_of), sum(e["fallback"] is not None for e in all_of)))
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
