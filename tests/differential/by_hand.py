"""Two presets replayed by hand on a real log: the rules of the products over the raw messages, and nothing of this program but what it
did. Usage: by_hand.py LOG DATA RUN

LOG is a file of tau-bench (a list of runs, each with its messages in `traj`), DATA what `trajpress ingest` and `annotate` make of it, RUN
a run over DATA with `contexts = true` and the presets `openai-agents-trimmer` and `vercel-prune`. Needs pandas and zstd.
"""

import json
import subprocess
import sys

import pandas as pd

LOG, DATA, RUN = sys.argv[1:4]


def trimmed(messages):
    """OpenAI Agents: results before the second newest message of the user, over 500 characters, become their first 200."""
    users = [n for n, m in enumerate(messages) if m["role"] == "user"]
    border = users[-2] if len(users) >= 2 else 0
    made = {}
    for n, m in enumerate(messages[:border]):
        text = m["content"] or ""
        header = f"[Trimmed: {m.get('name')} output — {len(text)} chars → 200 char preview]\n"
        if m["role"] == "tool" and len(text) > 500 and len(header) + 203 < len(text):
            made[n] = text[:200]
    return made


def pruned(messages):
    """Vercel: calls and results before the last ten messages go, unless their id is named there."""
    named = {c["id"] for m in messages[-10:] for c in m.get("tool_calls") or []} | {m.get("tool_call_id") for m in messages[-10:]}
    gone = set()
    for n, m in enumerate(messages[:-10]):
        if m["role"] == "tool" and m["tool_call_id"] not in named:
            gone.add(n)
        if any(c["id"] not in named for c in m.get("tool_calls") or []):
            gone.add(n)
    return gone


def unique(messages):
    """The model of these logs names calls twice: a call and its result have an id of their own, as the program reads them."""
    made, seen = [], {}
    for m in messages:
        m = json.loads(json.dumps(m))
        for c in m.get("tool_calls") or []:
            seen[c["id"]] = seen.get(c["id"], 0) + 1
            c["id"] += f"#{seen[c['id']]}"
        if m["role"] == "tool":
            m["tool_call_id"] += f"#{seen[m['tool_call_id']]}"
        made.append(m)
    return made


def main():
    raw = json.loads(subprocess.run(["zstd", "-dcf", LOG], capture_output=True, check=True).stdout)
    read = lambda folder, name: pd.read_parquet(f"{folder}/{name}.parquet")
    keys = ["trajectory", "step"]
    steps = read(DATA, "steps").merge(read(DATA, "features")[[*keys, "tokens"]], on=keys).sort_values(keys)
    labels = read(RUN, "variants").set_index("variant").label
    left, timeline = read(RUN, "contexts"), read(RUN, "timeline").sort_values("decision")
    texts = {t: g.text.tolist() for t, g in steps[steps.role == "user"].groupby("trajectory")}
    for name in ("openai-agents-trimmer", "vercel-prune"):
        variant = next(v for v, label in labels.items() if label.startswith(name))
        decisions = equal = changes = changed_equal = 0
        for trajectory, rows in timeline[timeline.variant == variant].groupby("trajectory"):
            run = next(r["traj"] for r in raw if [m["content"] for m in r["traj"] if m["role"] == "user"] == texts[trajectory])
            messages, own = unique(run), steps[steps.trajectory == trajectory]
            made = left[(left.variant == variant) & (left.trajectory == trajectory) & (left.form == "placeholder")]
            asked, before = [n for n, m in enumerate(messages) if m["role"] == "assistant"], None
            assert len(asked) == len(rows), trajectory
            for at, (_, row) in zip(asked, rows.iterrows()):
                if name == "vercel-prune":
                    now = pruned(messages[:at])
                    stays = own[(own.message < at) & ~(own.message.isin(now) & own.kind.isin(["action", "observation"]))]
                    same = int(stays.tokens.sum()) == row.tokens_sent
                else:
                    now = trimmed(messages[:at])
                    stands = {own[own.step == r.step].message.iloc[0]: r.text for _, r in made[made.decision <= row.decision].iterrows()}
                    same = now.keys() == stands.keys() and all(stands[n].startswith(now[n]) for n in now)
                decisions, equal = decisions + 1, equal + same
                if set(now) != (before or set()):
                    changes, changed_equal = changes + 1, changed_equal + same
                before = set(now)
        print(f"{name}: decisions {decisions}, equal {equal}; changes {changes}, equal {changed_equal}")


main()
