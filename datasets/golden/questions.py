"""Probes: questions with four choices, chosen so that no cheap guess knows the answer.

All four choices stand in the log where possible. Among the possible questions of a point those are
taken that keep each guesser of `GUESSERS` near one hit in four within the run.
"""
import re

MODALS = ["must not", "may not", "cannot", "must never", "never", "no more than", "not exceed", "at most", "at least", "must", "only", "has to",
          "have to", "no", "not", "nothing", "without", "within", "below", "after", "only", "nobody", "anything but", "everything but", "forbidden", "out of scope"]


def anchors(text, value):
    """What of a constraint must survive: its value, and the word that makes it a constraint."""
    at = text.lower().index(value.lower())
    out = [text[at:at + len(value)]]
    for modal in MODALS:
        found = re.search(r"(?<!\w)" + modal + r"(?!\w)", text[:at] + "\0" * len(value) + text[at + len(value):], re.I)
        if found:
            out.append(found.group(0))
            break
    return out


def places(text, value):
    pattern = r"(?<![\w])" if value[0].isalnum() else ""
    return [m.start() for m in re.finditer(pattern + re.escape(value.lower()) + r"(?!\w)", text)]


class Guessers:
    """What can be guessed of a choice without knowing: its length and where it stands in the log so far."""

    NAMES = ("longest", "shortest", "most_frequent", "least_frequent", "most_recent", "oldest")

    def __init__(self, texts):
        """`texts`: one a message, as the prompt holds them."""
        self.text = "\n".join(texts).lower()
        self.known = {}

    def facts(self, value):
        if value not in self.known:
            at = places(self.text, value)
            self.known[value] = (len(at), at[-1] if at else -1, at[0] if at else -1)
        return self.known[value]

    def guesses(self, choices):
        """Name -> index of the guess; the first of equals."""
        f = [self.facts(c) for c in choices]
        best = lambda keys: max(range(len(choices)), key=lambda i: (keys[i], -i))
        return {"longest": best([len(c) for c in choices]), "shortest": best([-len(c) for c in choices]),
                "most_frequent": best([x[0] for x in f]), "least_frequent": best([-x[0] for x in f]),
                "most_recent": best([x[1] for x in f]), "oldest": best([-x[2] for x in f])}


def candidates(story, snapshot, step, guessers):
    """Every question that can be asked at a point: (kind, question, answer, pool of wrong answers, keys)."""
    out = []
    seen = lambda v: guessers.facts(v)[0] > 0
    facts = snapshot["facts"]
    for key, (value, span, old) in sorted(facts.items()):
        fact = story.facts[key]
        family = fact["family"]
        pool = [v for k, (v, _, o) in sorted(facts.items()) if story.facts[k]["family"] is family and k != key] + old
        others = [o for k, (_, _, os) in sorted(facts.items()) if k != key and story.facts[k]["family"] is family for o in os]
        out.append(("artifact", story_text(family["ask"], fact["entity"]), value, pool + others, [span], bool(old)))
    for item, span in snapshot["limits"]:
        pool = [d for d, _ in item["decoys"]]
        for x in story.limits:
            if x["until"] is not None and x["gen"] == item["gen"] and x["category"] == item["category"] and x["value"] != item["value"]:
                pool.append(x["value"])
        ask = story.tell(item["ask"])
        out.append(("constraint", ask, item["value"], pool, [span], item["replaced"]))
    for choice in snapshot["choices"]:
        rejected = choice["options"]
        out.append(("decision", "What was decided about %s?" % choice["topic"], choice["answer"], [o for o, _ in rejected], [choice["id"]], False))
        out.append(("decision", "For which reason was the decision about %s taken?" % choice["topic"], choice["reason"], [r for _, r in rejected], [choice["id"]], False))
        for i, (o, r) in enumerate(rejected):
            out.append(("decision", "Which argument was brought for %s?" % o, r, [choice["reason"]] + [x for _, x in rejected if x != r], ["%s.%d" % (choice["id"], i)], False))
    goals = [g for i, g in enumerate(story.goal_list)]
    now = snapshot["goal"]
    out.append(("goal", "What is the task of the agent at this moment?", goals[now], [g for i, g in enumerate(goals) if i != now], [snapshot["goal_key"]], len(story.goal_history) > 1))
    plan = story.plans[snapshot["plan"]]
    items = plan["items"]
    for i in range(len(items) - 1):
        pool = [x for j, x in enumerate(items) if j not in (i, i + 1)]
        out.append(("continuation", "In the present plan of the agent, what comes right after this: %s?" % items[i], items[i + 1], pool,
                    ["%s.%d" % (plan["key"], i), "%s.%d" % (plan["key"], i + 1)], False))
    out = [x for x in out if seen(x[2])]
    return [x[:3] + ([v for v in dict.fromkeys(x[3]) if seen(v) and v != x[2]],) + x[4:] for x in out]


def story_text(ask, entity):
    return ask.replace("{e}", entity)


def combos(items):
    n = len(items)
    return [(items[i], items[j], items[k]) for i in range(n) for j in range(i + 1, n) for k in range(j + 1, n)]


def ask(story):
    log, c = story.log, story.c
    probes, tally = [], {g: 0 for g in Guessers.NAMES}
    n_points = len(story.snapshots)
    texts = [log.text_of(i).lower() for i in range(len(log.messages))]
    asked = set()
    for number, snapshot in enumerate(story.snapshots):
        step = next((i["step"] for i in log.intents if i["step"] > snapshot["last"]), log.last)
        if snapshot["is_end"]:
            step = log.last
        said = "\n".join(texts[snapshot["last"] + 1:step + 1]) if not snapshot["is_end"] else ""
        guessers = Guessers(texts[:snapshot["last"] + 1])
        pool = candidates(story, snapshot, step, guessers)
        # An answer that the messages in between say aloud asks nothing; nor may they change it.
        pool = [x for x in pool if len(x[3]) >= 3 and not places(said, x[2]) and (x[1], x[2]) not in asked]
        moved = {x["old"] for x in log.superseded if snapshot["last"] < x["step"] <= step}
        turned = any(snapshot["last"] < g["step"] <= step for g in log.goal_changes)
        pool = [x for x in pool if x[2] not in moved and not (turned and x[0] in ("goal", "continuation"))]
        want = 3 if n_points <= 4 or snapshot["is_end"] else 2
        for _ in range(want):
            counts = {k: sum(p["kind"] == k for p in probes) for k in ("goal", "constraint", "artifact", "continuation", "decision")}
            if not pool:
                break
            rank = {"artifact": 0.6, "constraint": 0.8, "decision": 1.0, "continuation": 1.0, "goal": 1.1}
            kinds = sorted(sorted({x[0] for x in pool}), key=lambda k: (counts[k] + 1) * rank[k])[:2]
            best = None
            for x in pool:
                if x[0] not in kinds:
                    continue
                wrong = x[3] if len(x[3]) <= 7 else c.sample(x[3], 7)
                for three in c.sample(combos(wrong), 8):
                    choices = c.shuffled([x[2]] + list(three))
                    hits = guessers.guesses(choices)
                    at = choices.index(x[2])
                    cost = 0.0
                    for g in Guessers.NAMES:
                        h = tally[g] + (hits[g] == at)
                        cost += (h - 0.25 * (len(probes) + 1)) ** 2
                    # Better: what changed, what the agent uses later. Worse: arguments that lost.
                    later = any(u > snapshot["last"] for k in x[4] if k in log.spans for u in log.spans[k]["used"])
                    cost += c.real() * 0.2 - 0.3 * bool(x[5]) - 0.2 * later + 0.3 * (x[0] != kinds[0]) + 1.5 * ("." in x[4][0] and x[0] == "decision")
                    if best is None or cost < best[0]:
                        best = (cost, x, choices, hits, at)
            _, x, choices, hits, at = best
            for g in Guessers.NAMES:
                tally[g] += hits[g] == at
            probes.append({"step": step, "kind": x[0], "question": x[1], "choices": choices, "answer": x[2], "keys": x[4]})
            if x[0] != "goal":
                asked.add((x[1], x[2]))
            pool = [y for y in pool if y[1] != x[1] and y[4] != x[4]]
    return probes
