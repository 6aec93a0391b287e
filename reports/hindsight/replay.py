"""Events of a log, what each could keep, the needs that follow, and what is known of each atom at the event.

Turns, pairs and needs come from the programs of tests/method. Events are those of the trigger `turns` with n = 10 and keep = 5.
"""
import collections
import math
import pathlib
import re
import sys

import pyarrow.parquet as pq

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/method"))
from atoms import BODY, BOUND, DERIVED  # noqa: E402
from log import Log, find_needs  # noqa: E402

N, KEEP, TAIL = 10, 5, 3
ACTIONS = "submit edit_file run_test read_file search api_call run_command other".split()
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]{2,}|\d+")
WORD = re.compile(r"[^\W\d_]{3,}")

GROUPS = {
    "kind": [f"kind_{n}" for n in range(10)],
    "name": "chars parts digits upper slashes dots underscores has_equals capital".split(),
    "often": "said scope_said steps_said by_tool by_agent by_user rarity mean_per_turn".split(),
    "when": "since_first since_last turn_in_scope new_here".split(),
    "acted": "in_actions in_thoughts in_bodies after_seen was_needed last_by_agent acted_lately".split(),
    "where": ["on_" + a for a in ACTIONS] + "is_error bound_lines".split(),
    "crowd": "fewest_in_line mean_in_line atoms_in_step line_tokens step_lines place scope_atoms".split(),
    "goal": "parts_in_goal parts_in_thoughts parts_in_tail parts_in_tail_atoms".split(),
    "files": "file_edited is_edited same_folder file_in_tail base_in_tail".split(),
    "near": "near_acted near_tail near_needed near_error".split(),
    "log": "turn n_events n_said".split(),
}
NAMES = [name for names in GROUPS.values() for name in names]


def parts(name):
    return [p.lower() for p in PARTS.findall(name) if len(p) > 2]


def words(text):
    return {w for word in WORD.findall(text) for w in [word.lower(), *parts(word)]}


class Event:
    """An event: its scope's steps, the lines it may keep, and its atoms that could be needed, with their numbers."""
    def __init__(self, turn, steps):
        self.turn, self.steps = turn, steps
        self.lines = []      # (step, span, tokens, bound atoms, all atoms, text)
        self.atoms, self.numbers = [], []


def lines_of(s, spelled):
    held = collections.defaultdict(dict)
    for atom, span, flags in spelled:
        held[span][atom] = held[span].get(atom, 0) | flags
    raw, start = s["text"].encode(), 0
    for n, (end, tokens) in enumerate(zip(s["ends"], s["span_tokens"])):
        yield s, n, tokens, {a for a, f in held[n].items() if f & BOUND}, set(held[n]), raw[start:end].decode(errors="replace")
        start = end


class Run:
    """A log under the trigger: events, and the exposed headline needs after them as (turn, atom, weight, kind)."""
    def __init__(self, steps, features):
        self.log = log = Log(steps, features, [])
        for s, f in zip(steps, features):
            s["path"], s["ends"], s["span_tokens"] = f["path"], f["span_end"], f["span_tokens"]
            s["lines"] = list(lines_of(s, [(a, span, flags) for (a, flags), span in zip(s["atoms"], f["atom_span"])]))
        self.needs_all, _ = find_needs(log, TAIL)
        self.call = {}
        last = None
        for s in steps:
            if s["kind"] == "action":
                last = s
                self.call[s["call_id"]] = s
            elif s["kind"] == "observation":
                s["call"] = self.call.get(s["call_id"]) if s["call_id"] else last
        self.events, self.needs = [], []
        for segment in sorted({log.segment(turn) for turn in log.turns if turn}):
            self.replay(segment)

    def replay(self, segment):
        log = self.log
        turns = [turn for turn in sorted(log.turns) if turn and log.segment(turn) == segment]
        by_turn = collections.defaultdict(list)
        for need in self.needs_all:
            if need["group"] == "headline" and need["supported"] and need["bound"]:
                by_turn[need["turn"]].append(need)
        head = log.turns[0] + [s for s in log.steps if s["pinned"] and s["segment"] < segment]
        fresh, done_steps = list(head) + log.kept_in(segment), set()
        counted, events, self.history = turns[0], [], History(log, segment)
        for s in fresh:
            self.history.see(s)
        for turn in turns:
            before, after = log.split(turn)
            for s in before:
                fresh.append(s)
                self.history.see(s)
            if not after:
                continue
            if turn - counted >= N + KEEP:
                counted = turn - KEEP
                scope = [s for s in fresh if s["turn"] and not s["pinned"] and s["kind"] != "compaction" and s["due"] < counted]
                if scope:
                    gone = {id(s) for s in scope}
                    fresh = [s for s in fresh if id(s) not in gone]
                    event = Event(turn, scope)
                    event.lines = [line for s in scope for line in s["lines"] if line[2]]
                    self.history.rate(event, fresh, head, len(events))
                    events.append(event)
            if events:
                standing = {a for s in fresh for a, _ in s["atoms"]}
                weight = len(by_turn[turn])
                for need in by_turn[turn]:
                    if need["atom"] not in standing:
                        self.needs.append((len(self.events) + len(events), turn, need["atom"], 1 / weight, need["kind"],
                                           len(self.events)))
            for s in after:
                fresh.append(s)
                self.history.see(s)
        self.events += events


class History:
    """What was said and done so far in a segment."""
    def __init__(self, log, segment):
        self.log, self.said = log, {}
        self.edited, self.goal, self.n_steps, self.users = set(), set(), 0, 0

    def see(self, s):
        self.n_steps += 1
        if (s["role"], s["kind"]) == ("user", "message"):
            self.users += 1
            self.goal |= words(s["text"][:20000])
        if s["action"] == "edit_file" and s["path"]:
            self.edited.add(s["path"])
        is_call = s["kind"] == "action"
        for atom, flags in s["atoms"]:
            e = self.said.get(atom)
            if e is None:
                e = self.said[atom] = {"first": s["turn"], "last": s["turn"], "n": 0, "steps": set(), "role": collections.Counter(),
                                       "actions": set(), "thoughts": 0, "bodies": 0, "used": 0, "needed": 0, "acted": -99}
            if s["role"] == "agent" and not flags & DERIVED:
                seen_before = e["n"] and e["last"] < s["turn"]
                e["used"] += bool(seen_before and s["turn"] != e["acted"])
                e["needed"] += bool(seen_before and s["turn"] - e["last"] > TAIL)
                e["acted"] = s["turn"]
                e["thoughts"] += not is_call
                if is_call and not flags & BODY:
                    e["actions"].add(s["step"])
                e["bodies"] += bool(flags & BODY)
            e["n"] += 1
            e["last"] = s["turn"]
            e["by"] = s["role"]
            e["steps"].add(s["step"])
            e["role"][s["role"]] += 1

    def rate(self, event, fresh, head, n_events):
        """The atoms that no step beside the scope holds, each with its numbers."""
        hidden = {a for s in fresh for a, _ in s["atoms"]}
        tail = [s for s in fresh if not any(s is h for h in head)]
        tail_words = words(" ".join(s["text"][:6000] for s in tail))
        thought_words = words(" ".join(s["text"] for s in tail if s["role"] == "agent" and s["kind"] != "action"))
        tail_parts = {p for s in tail for a, _ in s["atoms"] for p in parts(a)}
        tail_paths = {s["path"] for s in tail if s["path"]}
        tail_atoms = {a for s in tail for a, _ in s["atoms"]}
        bases = {a.rsplit("/", 1)[-1] for a in tail_atoms}
        folders = {p.rsplit("/", 1)[0] for p in self.edited if "/" in p}
        where = collections.defaultdict(list)
        for line in event.lines:
            for a in line[4]:
                if a not in hidden:
                    where[a].append(line)
        first, last = event.steps[0]["turn"], event.steps[-1]["turn"]
        per_step = {id(s): len({a for a, _ in s["atoms"]}) for s in event.steps}
        lines_in = {id(s): len(s["lines"]) for s in event.steps}
        for atom, lines in where.items():
            if any(atom in line[3] for line in lines):
                event.atoms.append(atom)
                event.numbers.append(self.numbers(
                    event, atom, lines, first, last, per_step, lines_in, len(where), n_events,
                    (tail_words, thought_words, tail_parts, tail_paths, tail_atoms, bases, folders)))

    def numbers(self, event, atom, lines, first, last, per_step, lines_in, n_where, n_events, tail):
        tail_words, thought_words, tail_parts, tail_paths, tail_atoms, bases, folders = tail
        e, kind, log1p = self.said[atom], self.log.kinds[atom], math.log1p
        names = parts(atom)
        share = lambda known: sum(p in known for p in names) / max(len(names), 1)
        out = [kind == k for k in range(10)]
        out += [log1p(len(atom)), len(names), sum(c.isdigit() for c in atom) / len(atom), sum(c.isupper() for c in atom) / len(atom),
                atom.count("/"), atom.count("."), atom.count("_"), "=" in atom, atom[:1].isupper()]
        out += [log1p(e["n"]), log1p(len(lines)), log1p(len(e["steps"])), log1p(e["role"]["tool"]), log1p(e["role"]["agent"]),
                log1p(e["role"]["user"]), log1p(self.n_steps) - log1p(len(e["steps"])), e["n"] / (event.turn - e["first"] + 1)]
        out += [log1p(event.turn - e["first"]), event.turn - e["last"], (e["last"] - first) / (last - first + 1), e["first"] >= first]
        out += [log1p(len(e["actions"])), log1p(e["thoughts"]), log1p(e["bodies"]), log1p(e["used"]), e["needed"], e["by"] == "agent",
                log1p(min(event.turn - e["acted"], 99))]
        acts = collections.Counter((s.get("call") or s)["action"] for s, *_ in lines if s["role"] != "agent")
        out += [log1p(acts[a]) for a in ACTIONS] + [any(s["is_error"] for s, *_ in lines), log1p(sum(atom in line[3] for line in lines))]
        s, n = lines[-1][:2]
        out += [log1p(min(len(line[4]) for line in lines)), log1p(sum(len(line[4]) for line in lines) / len(lines)),
                log1p(min(per_step[id(line[0])] for line in lines)), log1p(min(line[2] for line in lines if atom in line[3])),
                log1p(min(lines_in[id(line[0])] for line in lines)), n / lines_in[id(s)], log1p(n_where)]
        out += [share(self.goal), share(thought_words), share(tail_words), share(tail_parts)]
        paths = {(s.get("call") or s)["path"] for s, *_ in lines} - {None}
        out += [bool(paths & self.edited), atom in self.edited, any(p.startswith(f) for p in paths | {atom} for f in folders),
                bool(paths & tail_paths), atom.rsplit("/", 1)[-1] in bases]
        near = {a for line in lines[:20] for a in line[4]} - {atom}
        out += [log1p(sum(len(self.said[a]["actions"]) > 0 for a in near)), log1p(len(near & tail_atoms)),
                log1p(sum(self.said[a]["needed"] > 0 for a in near)), any(self.log.kinds[a] == 7 for a in near)]
        out += [log1p(event.turn), n_events, log1p(len(self.said))]
        return [float(x) for x in out]


def read(data, chosen):
    """(row of trajectories, Run) of the logs that `chosen(row)` names."""
    rows = [r for r in pq.read_table(f"{data}/trajectories.parquet").to_pylist() if chosen(r)]
    want = {r["trajectory"] for r in rows}
    tables = []
    for name in ("steps", "features"):
        table = collections.defaultdict(list)
        for batch in pq.ParquetFile(f"{data}/{name}.parquet").iter_batches(2000):
            keep = [t in want for t in batch.column("trajectory").to_pylist()]
            if any(keep):
                for row in batch.filter(__import__("pyarrow").array(keep)).to_pylist():
                    table[row["trajectory"]].append(row)
        tables.append(table)
    for r in rows:
        yield r, Run(tables[0].pop(r["trajectory"]), tables[1].pop(r["trajectory"]))
