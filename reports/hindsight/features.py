"""What is known of a statement at a point of a log: numbers, and hashed pieces of its text. Nothing looks beyond the point."""
import bisect
import collections
import json
import math
import re
import zlib

import pyarrow.parquet as pq

from statements import statements

BUCKETS = 1 << 16
# A letter of a script without spaces is a word of its own, as in src/text/runs.rs.
ALONE = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
WORD = re.compile(rf"[{ALONE}]|[^\W_{ALONE}]+")
PIECE = re.compile(rf"[{ALONE}]|[^\W\d_{ALONE}]+|\d+|[^\w\s]")
HUMP = re.compile(r"[a-z0-9][A-Z]|[a-z]_[a-z]")
ACTIONS = "submit edit_file run_test read_file search api_call run_command other".split()
SOURCES = ("user", "agent", "tool")
TYPES = ("goal", "constraint", "decision", "fact", "tool_output")
NAMES = (
    ["source_" + s for s in SOURCES] + ["is_thought", "is_error"] + ["after_" + a for a in ACTIONS]
    + "first_user last_user users_since turns_ago age step_place step_from_end step_size log_size chars n_words letters digits marks upper "
      "ends_question ends_colon ends_stop numbered indent diff_add diff_del fence quoted code_marks hump".split()
    + [f"atoms_{n}" for n in range(10)]
    + "n_atoms rarest mean_rarity new_atoms acted acted_share said_later tail_atoms path_edited atom_edited goal_share tail_share "
      "goal_words same_before same_after new_words line_place before_colon".split())
NUMBERED = re.compile(r"\s{0,8}\d{1,6}\s?[:\t|→]")
CODE = re.compile(r"[{}()\[\];=<>]")


def words_of(text):
    return [word.lower() for word in WORD.findall(text)]


class Log:
    """The steps of one annotated log, with statements, atoms and where each atom was said and acted on."""
    def __init__(self, row, steps, features):
        self.id, self.repository, self.agent = row["trajectory"], row["repository"], row["agent"]
        self.truth = json.loads(row["annotations"]) if row["annotations"] else None
        self.steps = steps
        self.said, self.acted, self.kinds = (collections.defaultdict(list) for _ in range(3))
        call = {}
        for i, (s, f) in enumerate(zip(steps, features)):
            s["i"], s["action"], s["path"], s["tokens"] = i, f["action_kind"], f["path"], f["tokens"]
            s["ends"], s["atoms"] = f["span_end"], list(zip(f["atom"], f["atom_kind"], f["atom_span"], f["atom_flags"]))
            if s["kind"] == "action":
                call[s["call_id"]] = call[None] = i
            s["call"] = call.get(s["call_id"], call.get(None)) if s["kind"] == "observation" else None
            for atom in {a for a, *_ in s["atoms"]}:
                self.said[atom].append(i)
                if s["role"] == "agent":
                    self.acted[atom].append(i)
        self.candidates = list(self.cut())
        self.places = collections.defaultdict(list)
        for c in self.candidates:
            self.places[c["norm"]].append(c["step"])

    def cut(self):
        for s in self.steps:
            is_tool = s["role"] == "tool" or s["kind"] == "observation" and s["role"] != "user"
            if s["kind"] not in ("message", "thought", "observation") or s["role"] == "system":
                continue
            text = s["text"]
            ranges = statements(text, not is_tool)
            before, at, byte = "", 0, 0
            by_span = collections.defaultdict(list)
            for atom, kind, span, flags in s["atoms"]:
                by_span[span].append((atom, kind))
            for n, (start, end) in enumerate(ranges):
                byte += len(text[at:start].encode())
                piece, at = text[start:end], start
                first = bisect.bisect_right(s["ends"], byte)
                last = bisect.bisect_left(s["ends"], byte + len(piece.encode()))
                atoms = {a: k for span in range(first, last + 1) for a, k in by_span.get(span, ()) if a.strip("/").lower() in piece.lower()}
                line = text[text.rfind("\n", 0, start) + 1:start]
                yield {"step": s["i"], "start": byte, "text": piece, "words": words_of(piece), "n": n, "of": len(ranges), "line": line,
                       "source": "user" if s["role"] == "user" else "tool" if is_tool else "agent", "before": before, "atoms": atoms,
                       "norm": " ".join(words_of(piece))}
                before = piece


class Point:
    """What stands in a log up to a step: goal, tail, edited files, how often each atom was said."""
    def __init__(self, log, end, tail=3):
        self.log, self.end = log, end
        steps = log.steps[:end]
        users = [s["i"] for s in steps if (s["role"], s["kind"]) == ("user", "message")]
        self.users, self.turn, self.n = users, steps[-1]["turn"] if steps else 0, len(steps)
        self.edited = {s["path"] for s in steps if s["action"] == "edit_file" and s["path"]}
        goal = [log.steps[i]["text"] for i in users[:1] + users[-1:]]
        self.goal = set(words_of(" ".join(goal)))
        newest = [s for s in steps if s["turn"] > self.turn - tail and s["i"] not in users[:1]]
        self.tail = set(words_of(" ".join(s["text"][:4000] for s in newest)))
        self.tail_atoms = {a for s in newest if s["role"] == "agent" for a, *_ in s["atoms"]}
        self.tail_start = newest[0]["i"] if newest else end
        self.seen_words = collections.Counter(w for c in log.candidates if c["step"] < end for w in set(c["words"]))

    def count(self, places, after=-1):
        return bisect.bisect_left(places, self.end) - bisect.bisect_right(places, after)


def numbers(point, c):
    """The numbers of NAMES for a candidate."""
    log, s, text = point.log, point.log.steps[c["step"]], c["text"]
    action = log.steps[s["call"]]["action"] if s["call"] is not None else None
    path = log.steps[s["call"]]["path"] if s["call"] is not None else None
    size = max(len(text), 1)
    words = c["words"]
    out = [c["source"] == x for x in SOURCES] + [s["kind"] == "thought", bool(s["is_error"])] + [action == x for x in ACTIONS]
    users = point.users
    out += [s["i"] in users[:1], s["i"] in users[-1:], sum(u > s["i"] for u in users), math.log1p(point.turn - s["turn"]),
            (point.n - s["i"]) / point.n, c["n"] / c["of"], math.log1p(c["of"] - 1 - c["n"]), math.log1p(c["of"]), math.log1p(point.n)]
    letters, digits = sum(x.isalpha() for x in text), sum(x.isdigit() for x in text)
    blanks = sum(x.isspace() for x in text)
    out += [math.log1p(size), math.log1p(len(words)), letters / size, digits / size, (size - letters - digits - blanks) / size,
            sum(x.isupper() for x in text) / size, text[-1:] == "?", text[-1:] == ":", text[-1:] == ".",
            bool(NUMBERED.match(c["line"] + text)), math.log1p(len(c["line"]) - len(c["line"].lstrip()) if c["line"].strip() == "" else 0),
            text[:1] == "+" or c["line"][:1] == "+", text[:1] == "-" or c["line"][:1] == "-", "`" in text,
            text[:1] in "\"'", len(CODE.findall(text)) / size, bool(HUMP.search(text))]
    kinds = collections.Counter(c["atoms"].values())
    out += [kinds[k] for k in range(10)]
    said = [point.count(log.said[a]) for a in c["atoms"]]
    rare = [math.log1p(point.n) - math.log1p(x) for x in said]
    acted = [a for a in c["atoms"] if point.count(log.acted[a], s["i"])]
    out += [len(c["atoms"]), max(rare, default=0), sum(rare) / max(len(rare), 1), sum(log.said[a][0] == s["i"] for a in c["atoms"]),
            len(acted), len(acted) / max(len(said), 1), math.log1p(sum(point.count(log.said[a], s["i"]) for a in c["atoms"])),
            sum(a in point.tail_atoms for a in c["atoms"]), path in point.edited if path else 0,
            sum(a in point.edited for a in c["atoms"])]
    content = {w for w in words if len(w) > 2}
    goal = content & point.goal
    out += [len(goal) / max(len(content), 1), len(content & point.tail) / max(len(content), 1),
            sum(math.log(1 + point.n / point.seen_words.get(w, 1)) for w in goal)]
    places = log.places[c["norm"]]
    out += [math.log1p(bisect.bisect_left(places, s["i"])), math.log1p(point.count(places, s["i"])),
            sum(point.seen_words.get(w, 0) <= 1 for w in content) / max(len(content), 1),
            len(c["line"].strip()) > 0, c["before"][-1:] == ":"]
    return [float(x) for x in out]


def bucket(name):
    return zlib.crc32(name.encode()) % BUCKETS


def pieces(c, action=None):
    """Hashed pieces of the text: words and pairs of words with who says them, four letters each, and the words of the statement before."""
    who = c["source"][0]
    tokens = ["0" if t[0].isdigit() else t.lower() for t in PIECE.findall(c["text"])][:120]
    found = {who}
    for a, b in zip(["<"] + tokens, tokens + [">"]):
        found.add(f"{who} {a} {b}")
    for t in tokens:
        found.add(f"w {t}")
        found.add(f"{who} {t}")
        if len(t) > 4:
            found.update(f"c {t[i:i + 4]}" for i in range(len(t) - 3))
    found.update(f"p {t}" for t in words_of(c["before"])[-12:])
    found.add(f"{who} a {action}")
    found.update(f"f {who} {t}" for t in tokens[:2])
    return sorted({bucket(name) for name in found})


def read(data):
    """The logs of a dataset that `ingest` and `annotate` made."""
    by = [collections.defaultdict(list), collections.defaultdict(list)]
    columns = ["trajectory", "step", "turn", "segment", "message", "role", "kind", "text", "call_id", "is_error"]
    for table, name, want in ((by[0], "steps", columns), (by[1], "features", None)):
        for row in pq.read_table(f"{data}/{name}.parquet", columns=want).to_pylist():
            table[row["trajectory"]].append(row)
    for row in pq.read_table(f"{data}/trajectories.parquet").to_pylist():
        yield Log(row, by[0][row["trajectory"]], by[1][row["trajectory"]])
