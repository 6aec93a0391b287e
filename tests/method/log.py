"""Turns, pairs and needs of a log, by sections 1, 3 (spellings) and 6 of docs/method.md."""
import collections

from atoms import BODY, BOUND, DERIVED, KINDS, NUMBER, PATH, atoms

CLASSES = {"tool": "observed", "user": "user", "system": "system", "agent": "authored"}
COUNTING = set("account chapter code column error id issue item line lines order page pr row section status step test "
               "ticket turn version".split())


def spellings(kinds):
    known, ends, goes_by = {}, {}, {}
    for path in sorted((a for a in kinds if kinds[a] == PATH), key=lambda a: -len([c for c in a.split("/") if c])):
        text = path.strip("/")
        goes_by[path] = known.get(text) or ends.get(text) or path
        if goes_by[path] == path:
            known[text] = path
            for end in (text[at + 1:] for at, c in enumerate(text) if c == "/"):
                ends[end] = None if end in ends else path
    return goes_by


class Log:
    def __init__(self, steps, features, rates):
        self.steps, self.rates, self.kinds = steps, rates, {}
        for atom, kind in (pair for f in features for pair in zip(f["atom"], f["atom_kind"])):
            self.kinds.setdefault(atom, kind)
        by = spellings(self.kinds)
        self.turns = collections.defaultdict(list)
        task = next((s["step"] for s in steps if (s["role"], s["kind"]) == ("user", "message")), None)
        for i, (s, f) in enumerate(zip(steps, features)):
            s.update(n=f["tokens"], action=f["action_kind"], due=s["turn"],
                     atoms=[(by.get(a, a), flags) for a, flags in zip(f["atom"], f["atom_flags"])],
                     pinned=s["turn"] > 0 and (i == task or s["kind"] in ("system", "tools", "demonstration")))
            edited = atoms(s["edit_text"]) if s["edit_from"] is not None else ()
            s["as_sent"] = {by.get(norm, norm) for _, norm, *_ in edited}
            self.turns[s["turn"]].append(s)
        self.is_edited = any(s["edit_from"] is not None for s in steps)
        self.pairs = self.find_pairs()
        for pair in self.pairs:
            for s in pair:
                s["due"] = pair[-1]["turn"]

    def find_pairs(self):
        found, named = [], {}
        for s in self.steps:
            pair = named.get(s["call_id"])
            last = pair and pair[-1]
            stands = last and (last["segment"] == s["segment"] or (last["kept_to"] or 0) >= s["segment"])
            if s["call_id"] and stands and (s["kind"] == "observation" or s["kind"] == last["kind"] == "action"):
                pair.append(s)
            elif s["call_id"] and s["kind"] == "action":
                named[s["call_id"]] = [s]
                found.append(named[s["call_id"]])
        return [pair for pair in found if pair[-1]["kind"] == "observation"]

    def split(self, turn):
        """The steps of a turn before its decision, and those from it on."""
        steps = self.turns[turn]
        at = next((at for at, s in enumerate(steps) if s["role"] == "agent"), len(steps))
        return steps[:at], steps[at:]

    def segment(self, turn):
        return self.turns[turn][-1]["segment"]

    def kept_in(self, segment):
        return [s for s in self.steps if s["turn"] and s["kind"] != "compaction" and not s["pinned"]
                and s["segment"] < segment <= (s["kept_to"] or 0)]

    def again(self, s):
        """Tokens to have an output again, and which; none where calling again does not bring it."""
        calls = [c for c in self.turns[s["turn"]] if c["step"] < s["step"] and c["kind"] == "action"][::-1]
        call = next((c for c in calls if s["call_id"] and c["call_id"] == s["call_id"]), calls[0] if calls else None)
        if (s["kind"], s["role"]) == ("observation", "tool") and call and call["action"] not in ("edit_file", "submit"):
            return call["n"] + s["n"], s["step"]

    def key_of(self, atom):
        key, _, value = atom.partition("=")
        return key if self.kinds[atom] == NUMBER and key and value and key not in COUNTING else None

    def was_sent(self, atom, turn, steps):
        shown = ({a for a, _ in s["atoms"]} if s["edit_from"] is None or s["edit_from"] > turn else s["as_sent"]
                 for s in steps)
        return not self.is_edited or any(atom in atoms_shown for atoms_shown in shown)


def find_needs(log, tail):
    """The needs at risk for the shortest tail, and how many there are in all of each class."""
    needs, census, head, summary, seen, newest, prompt, segment = [], collections.Counter(), set(), set(), {}, {}, [], 0

    def see(s):
        prompt.append(s)
        for atom, flags in s["atoms"]:
            if s["pinned"] or s["turn"] == 0:
                head.add(atom)
            if s["kind"] == "compaction":
                summary.add(atom)
            if s["turn"]:
                e = seen.setdefault(atom, {"who": set(), "bound": False, "source": None})
                e["turn"], e["bound"] = s["turn"], e["bound"] or bool(flags & BOUND)
                e["who"].add("system" if s["kind"] == "compaction" else s["role"])
                e["source"] = min((x for x in (e["source"], log.again(s)) if x), default=None)
                newest[log.key_of(atom)] = atom

    for turn in sorted(log.turns):
        if log.segment(turn) != segment:
            segment = log.segment(turn)
            for forgotten in (seen, newest, summary, prompt):
                forgotten.clear()
            for s in log.kept_in(segment):
                see(s)
        before, after = log.split(turn) if turn else (log.turns[0], [])
        for s in before:
            see(s)
        used = {}
        for atom, flags in (pair for s in after if s["role"] == "agent" for pair in s["atoms"]):
            if not flags & DERIVED:
                used[atom] = used.get(atom, True) and bool(flags & BODY)
        for atom, body in used.items():
            is_old = log.key_of(atom) and newest.get(log.key_of(atom), atom) != atom
            if atom in seen and not is_old and atom not in head | summary:
                e = seen[atom]
                who = next(CLASSES[role] for role in CLASSES if role in e["who"])
                census[who] += 1
                if turn - e["turn"] > tail:
                    group = "body" if body else who if who in ("system", "authored") else "headline"
                    needs.append({**e, "atom": atom, "gap": turn - e["turn"], "turn": turn, "class": who, "group": group,
                                  "kind": KINDS[log.kinds[atom]], "supported": log.was_sent(atom, turn, prompt)})
        for s in after:
            see(s)
    return needs, census
