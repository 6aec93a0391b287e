"""Recomputes scores of full, drop-all, truncate and mask by docs/method.md and holds them against scores.parquet:
`scores.py DATA RUN`, the folders of `annotate` and `run`. Exits 1 if a row differs by more than 1e-9 of its size."""
import collections, json, pathlib, sys
import pyarrow.parquet as pq

from atoms import KINDS
from log import Log, find_needs
from replay import bills, replay


def ratio(a, b):
    return a / b if b > 0 else None


def savings(log, decisions, price, rework):
    """(score, stratum, value, weight, n), as all that follow."""
    n, sums = len(decisions), {key: sum(d[key] for d in decisions) for key in ("sent", "full")}
    peak = {key: max((d[key] for d in decisions), default=0) for key in sums}
    saved = lambda sent, full: ("", ratio(full - sent, full), full)
    yield "token_savings", *saved(sums["sent"], sums["full"]), n
    yield "peak_tokens", "", peak["sent"] if n else None, 1, n
    yield "peak_savings", *saved(peak["sent"], peak["full"]), n
    yield "net_savings", *saved(sums["sent"] + rework, sums["full"]), n
    if not log.is_edited:
        yield "token_savings_vs_sent", *saved(sums["sent"], sums["full"]), n
    all_bills = list(bills(log, decisions, price))
    for at, name in enumerate(("token_savings_billed", "cost_savings", "cost_savings_uncached")):
        sent, full = (sum(bill[side][at] for bill in all_bills) for side in (0, 1))
        yield name, *saved(sent, full), sum(bill[2] for bill in all_bills) if at == 0 else n


def strata(is_exposed):
    """(suffix, whether the need q at its decision d belongs to it)."""
    headline = lambda q, d: q["group"] == "headline" and q["supported"]
    both = lambda test: lambda q, d: headline(q, d) and test(q, d)
    yield "", headline
    yield from ((f" class={c}", both(lambda q, d, c=c: q["class"] == c)) for c in ("observed", "user"))
    yield from ((f" {name}", lambda q, d, group=group: q["group"] == group and q["supported"]) for name, group in
                (("class=system", "system"), ("class=authored", "authored"), ("body=1", "body")))
    yield " unsupported=1", lambda q, d: q["group"] == "headline" and not q["supported"]
    if is_exposed:
        yield from ((" cap=20", headline), (" shadow=local", headline))
        yield from ((f" kind={k}", both(lambda q, d, k=k: q["kind"] == k)) for k in KINDS)
        yield from ((f" horizon={h}", both(lambda q, d, h=h: 0 < d["events"] and d["since"] <= h)) for h in (1, 5, 20))
        yield from ((f" point={c}", both(lambda q, d, c=c: d["events"] == c)) for c in (1, 2, 3))


def retention(needs, at, tails):
    share = {}
    for tail, bound in ((tail, bound) for tail in tails for bound in (False, True)):
        able = [q for q in needs if q["gap"] > tail and (q["bound"] or not bound)]
        of = collections.Counter((q["turn"], q["group"], q["supported"]) for q in able)
        share[tail, bound] = [(q, at[q["turn"]], 1 / of[q["turn"], q["group"], q["supported"]]) for q in able]
    for tail, is_exposed in ((tail, is_exposed) for tail in tails for is_exposed in (False, True)):
        for suffix, holds in strata(is_exposed):
            stratum, n = f"set={'exposed' if is_exposed else 'common'} tail={tail}{suffix}", {}
            for metric, bound in (("surface_retention", False), ("need_retention", True)):
                rows = [(q, d, w) for q, d, w in share[tail, bound]
                        if holds(q, d) and not (is_exposed and q["atom"] in d["fresh"])]
                missed = [(q, d, w) for q, d, w in rows if q["atom"] not in d["bound" if bound else "surface"]]
                weight, n[bound] = sum(w for *_, w in rows), len(rows)
                served = weight - sum(w for *_, w in missed)
                if rows or suffix in ("", " cap=20"):
                    yield metric, stratum, ratio(served, weight), min(weight, 20) if "cap" in suffix else weight, len(rows)
            if suffix == "":
                yield "need_coverage", stratum, ratio(n[True], n[False]), n[False], n[False]
            if suffix == "" and is_exposed:
                of, soft = (sum(w for *_, w in some) for some in (missed, [x for x in missed if x[0]["atom"] in x[1]["again"]]))
                yield "soft_miss_share", stratum, ratio(soft, of), of, len(missed)


def census(needs, all_needs, tails):
    for tail, who in ((tail, who) for tail in tails for who in all_needs):
        at_risk = [q for q in needs if q["class"] == who and q["gap"] > tail]
        n, stratum = len(at_risk), f"tail={tail} class={who}"
        yield "at_risk_share", stratum, ratio(n, all_needs[who]), all_needs[who], all_needs[who]
        yield "unsupported_share", stratum, ratio(len([q for q in at_risk if not q["supported"]]), n), n, n


def scores(log, needs, all_needs, variant, plan):
    decisions, events = replay(log, variant)
    at = {d["turn"]: d for d in decisions}
    hard = {(q["source"], at[q["turn"]]["events"]) for q in needs
            if q["group"] == "headline" and q["supported"] and q["bound"] and q["source"]
            and not any(q["atom"] in at[q["turn"]][key] for key in ("fresh", "bound", "again"))}
    yield "violation_rate", "", ratio(sum(events), len(events)), len(events), len(events)
    yield from savings(log, decisions, plan["prices"], sum(tokens for (tokens, _), _ in hard))
    yield from retention(needs, at, plan["reference_tails"])
    if variant["strategy"] == "full":
        yield from census(needs, all_needs, plan["reference_tails"])


def read(path):
    groups = collections.defaultdict(list)
    for row in pq.read_table(path).to_pylist():
        groups[row.get("trajectory")].append(row)
    return groups


def near(a, b):
    return a is b or None not in (a, b) and abs(a - b) <= 1e-9 * max(1, abs(b))


def main(data, run):
    steps, features, usage = (read(data / f"{name}.parquet") for name in ("steps", "features", "usage"))
    plan = json.loads((run / "_manifest.json").read_text())["plan"]
    known = ("full", "drop-all", "truncate", "mask")
    variants = [v for v in read(run / "variants.parquet")[None] if v["strategy"] in known]
    told = {(r["variant"], r["trajectory"], r["metric"], r["stratum"]): r
            for rows in read(run / "scores.parquet").values() for r in rows}
    compared, differ = collections.Counter(), 0
    for trajectory in steps:
        log = Log(steps[trajectory], features[trajectory], usage[trajectory])
        needs, all_needs = find_needs(log, min(plan["reference_tails"]))
        for variant in variants:
            for metric, stratum, *mine in scores(log, needs, all_needs, variant, plan):
                row = told.pop((variant["variant"], trajectory, metric, stratum), None)
                theirs = row and [row["value"], row["weight"], row["n"]]
                compared[metric] += 1
                if not theirs or not all(map(near, mine, theirs)):
                    differ += 1
                    print("differs:", variant["label"], trajectory, metric, stratum, mine, theirs)
    left = {metric for variant, _, metric, _ in told if variant in {v["variant"] for v in variants}} & set(compared)
    left -= {"token_savings_vs_sent"}
    print("rows of these scores that were not recomputed:", sorted(left) or "none")
    print(sum(compared.values()), "rows compared,", differ, "differ:", dict(compared))
    return differ or left


if __name__ == "__main__":
    sys.exit(bool(main(*map(pathlib.Path, sys.argv[1:3]))))
