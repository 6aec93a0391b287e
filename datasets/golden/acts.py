"""The acts that a story is made of: what is planted, used, said, decided.

Two manners: a working agent (coding, research) makes calls and hears from its user now and then; in a
talk (support, design) each turn answers the user.
"""
import zlib

import chatter
import limits
import names
from kit import Chance, again, capital, expand, noise, place, salient, strip

NOUNS = ("window ledger basket anchor signal mirror barrel ribbon lantern harbour button valley engine feather garden hammer island "
         "jacket kettle ladder magnet needle orchard pebble quarry rocket saddle timber velvet wagon canyon bridge").split()


def world(repo, rarity):
    """What two runs in one repository share: names of parts, people, firms and places."""
    c = Chance(zlib.crc32(repo.encode("utf-8")))
    taken, w = set(), {"repo": repo}
    for i in range(4):
        w["c%d" % i] = names.label(c, rarity, taken)
    for i, p in enumerate(c.sample(names.PEOPLE, 5)):
        w["p%d" % i] = p
    firms = c.sample(names.VENDORS, 3)
    for i in range(3):
        w["vendor%d" % i] = firms[i]
    for i, p in enumerate(c.sample(names.PLACES, 2)):
        w["place%d" % i] = p
    lexicon = c.sample(NOUNS, 12) + [names.word(c) for _ in range({"low": 0, "mid": 3, "high": 10}[rarity])]
    return w, lexicon, c.sample(chatter.ADJECTIVES, 14)


class Acts:
    # ---- words

    def words(self):
        c = self.c
        w = dict(self.world)
        w["w0"], w["w1"], w["w2"] = c.sample(self.lexicon, 3)
        w["a0"] = c.choice(self.adjectives)
        w["n1"], w["n2"], w["n3"] = c.int(2, 12), c.int(13, 99), c.int(100000, 999999)
        w["t"] = "%02d:%02d:%02d" % (c.below(24), c.below(60), c.below(60))
        return w

    def tell(self, text, **more):
        w = self.words()
        w.update(more)
        return expand(self.c, text, w)

    def is_odd(self):
        return self.c.chance({"low": 0.0, "mid": 0.35, "high": 0.9}[self.knobs["paraphrase"]])

    def at(self, turn, order, manner, function):
        self.agenda.append([turn, order, len(self.agenda), manner, function])

    # ---- planting

    def make_facts(self):
        c, rarity = self.c, self.knobs["rarity"]
        n = 6 if self.n_turns > 60 else 5 if self.n_turns > 30 else 4
        if "families" in self.plot:
            wanted = self.plot["families"].split()
            families = [f for f in self.tale.FAMILIES if f["key"] in wanted[:n]]
        else:
            families = c.sample(self.tale.FAMILIES, n)
        for family in families:
            for i, entity in enumerate(family["ents"]):
                key = "%s.%d" % (family["key"], i)
                self.facts[key] = {"key": key, "family": family, "entity": self.tell(entity), "old": [], "said": None, "busy": -1,
                                   "value": names.value(c, family["gen"], rarity, self.taken), "span": key}

        # Values of the same kinds that belong to nothing anybody asks about.
        for family in families:
            self.strays += [(family["noun"], names.value(c, family["gen"], rarity, self.taken)) for _ in range(2 if self.n_turns < 50 else 4)]
        self.strays = c.shuffled(self.strays)

    def sentence(self, fact, value=None):
        """A line that gives a fact its value, new or in the words of the first time."""
        says = fact["family"]["says"]
        if fact["said"] is None or value is not None or self.is_odd():
            form = self.c.choice(says)
        else:
            form = fact["said"]
        if value is None:
            fact["said"] = fact["said"] or form
        return self.tell(form, e=fact["entity"], v=value or fact["value"])

    def known(self, fact):
        return fact["span"] in self.log.spans

    def marked(self, fact, manner):
        text = self.sentence(fact)
        return again(fact["span"], text) if self.known(fact) else salient(manner, fact["span"], text)

    def others(self, fact, n):
        """Facts that may stand beside this one, which nobody is about to need: of the same family first."""
        free = [f for f in self.facts.values() if f is not fact and f["busy"] < self.log.turns]
        same = [f for f in free if f["family"] is fact["family"]]
        return self.c.sample(same if same and self.c.chance(0.8) else free, n)

    def plant(self, fact):
        c = self.c
        group = c.shuffled([fact] + self.others(fact, c.int(1, 3)))
        if self.is_talk and c.chance(0.6):
            lines = ". ".join(capital(self.marked(f, "fact")) for f in group)
            lead = self.tell(c.choice(self.tale.ASK))
            reply = c.choice(chatter.ACKS) + " " + self.tell(c.choice(
                ["I come back to it when it is needed.", "That helps.", "I put it with the rest.", "Let us go on, then.", "", "That may be useful later.", "I file it.", "Then I have a fuller picture."]))
            lines = ". ".join([lines] + [capital(r) for r in self.due_rumours(1)])
            return self.answer(lead + " " + lines + ".", reply.strip(), "explore")
        thought, tool, arguments, kind = c.choice(self.tale.PLANT)
        result = self.outputs.around(kind, [self.marked(f, "tool_output") for f in group] + self.due_rumours(1),
                                     self.prose)
        self.work("Could you look that up?|What do you have on it?|Please check on your side.|Is there something in your files?|I have lost the paper, have you got it?|Who would know that?|Where does it say so?|Have a look, would you?", thought, tool, arguments, result, "explore", ())

    def use(self, fact):
        c = self.c
        if not self.known(fact):
            return self.filler()
        if self.is_talk and c.chance(0.5):
            text = self.tell(c.choice(fact["family"]["replies"]), e=fact["entity"], v=fact["value"])
            return self.answer(self.tell(c.choice(["And now?", "Please go on.", "What is next?", "I am listening.", "What about the rest?", "Where do we stand?",
                                                   "Fine with me.", "And the other matter?"])), text, "implement", [fact["span"]])
        thought, tool, arguments, result = c.choice(fact["family"]["uses"])
        if result in ("{code}", "{page}", "{csv}"):
            result = self.outputs.blob(result[1:-1])
        intent = "verify" if tool in ("run", "lookup", "render", "board") else "implement" if tool in ("edit_file", "update", "write_spec", "send") else "explore"
        self.work("Go ahead.|Please do.|Yes.|Fine, carry on.|Whatever is needed.", self.tell(thought, e=fact["entity"]), tool, {k: v.replace("{v}", fact["value"]) for k, v in arguments.items()},
                  result, intent, [fact["span"]])

    # ---- manners of a turn

    def heard(self, default=None):
        """The user's message before this turn, if there is one; returns whether the agent should acknowledge."""
        parts, self.queue = self.queue, []
        if parts or default:
            said = " ".join(parts) if parts else default
            self.log.user(said)
        return bool(parts)

    def answer(self, question, text, intent, uses=()):
        if self.queue and question:
            self.queue.append(question)
        self.heard(question)
        self.log.agent(text, intent, uses)

    def work(self, cue, thought, tool, arguments, result, intent, uses, prefix="", more=None):
        acknowledged = self.heard(self.tell(self.c.choice(cue.split("|"))) if self.is_talk else None)
        opener = self.tell(self.c.choice(chatter.OPENERS)) + " " if not prefix and self.c.chance(0.4) else ""
        text = (self.c.choice(chatter.ACKS) + " " if acknowledged and self.c.chance(0.6) else opener) + prefix
        words = self.words()
        text += expand(self.c, thought, words)
        told = {k: expand(self.c, v, words) for k, v in arguments.items()}
        calls = [(tool, told, expand(self.c, result, words))]
        if more:
            calls.append((more[1], {k: self.tell(v) for k, v in more[2].items()}, self.outputs.blob(more[3])))
        self.log.call(text.strip(), calls, intent, uses)
        if self.is_talk:
            self.owed = intent

    def due_rumours(self, n):
        due = []
        for r in [r for r in self.rumours if r[0] <= self.log.turns + 1]:
            if len(due) < n and r[2] not in [d[2] for d in due]:
                due.append(r)
                self.rumours.remove(r)
        return [noise(r[1].rstrip(".")) for r in due]

    def intent_now(self):
        """The six intents follow each other inside a piece of the plan."""
        begin, end = self.bounds[self.piece]
        share = (self.log.turns - begin) / max(1, end - begin)
        roll = self.c.real()
        if share < 0.3:
            return "explore" if roll < 0.85 else "debug"
        if share < 0.55:
            return "implement" if roll < 0.6 else "explore" if roll < 0.8 else "refactor"
        if share < 0.75:
            return "debug" if roll < 0.6 else "implement"
        return "verify" if roll < 0.75 else "document" if roll < 0.9 else "refactor"

    def filler(self):
        c = self.c
        intent = self.intent_now()
        loose = [f for f in self.facts.values() if f["busy"] < self.log.turns]
        rumours = self.due_rumours(2 if c.chance(0.5) else 1)
        stale = [f for f in loose if f["old"]]
        extra = []
        if stale and c.chance(0.35):
            f = c.choice(stale)
            extra.append("an outdated page says that " + self.sentence(f, c.choice(f["old"])))
        elif loose and c.chance(0.3):
            f = c.choice(loose)
            extra.append(self.marked(f, "fact" if self.is_talk else "tool_output"))
        extra += rumours
        if self.strays and c.chance(0.25):
            noun, stray = self.strays.pop()
            extra.append(noise(self.tell(c.choice(["an old {noun} in the {w0} archive was {v}", "{v} is a {noun} of the {a0} {w1}, long gone", "the {a0} {w2} had {v} as its {noun}", "crossed out: {noun} {v} of the {w0}"]), noun=noun, v=stray)))
        aside = " " + c.choice(chatter.ASIDES) if c.chance(0.15) else ""
        if self.is_talk:
            return self.talk_filler(intent, extra)
        if extra:
            # Somebody's remark: it stands where people write, not in the output of a test.
            thought, tool, arguments, kind = c.choice(self.tale.PLANT + [w for w in self.tale.WORK["explore"] if w[3] in ("hits", "page")])
            return self.work("", thought, tool, arguments, self.outputs.around(kind, extra, self.prose), "explore", ())
        if self.seen and c.chance({"low": 0.03, "mid": 0.08, "high": 0.15}[self.knobs["noise"]]):
            tool, arguments, result = c.choice(self.seen)
            again_ = c.choice(["I look at that once more.", "Again, to be sure.", "What did that say? I read it again.", "The same once more, I lost the thread."])
            return self.work("", again_, tool, arguments, result, "explore", ())
        thought, tool, arguments, kind = c.choice(self.tale.WORK[intent])
        words = self.words()
        thought = expand(c, thought, words)
        result, told = self.outputs.blob(kind), {k: expand(c, v, words) for k, v in arguments.items()}
        if intent == "explore":
            self.seen.append((tool, told, result))
        more = c.choice(self.tale.WORK[intent]) if c.chance(0.08) else None
        self.work("", thought + aside, tool, told, result, intent, (), more=more)

    def talk_filler(self, intent, extra):
        c = self.c
        if extra and c.chance(0.8) or c.chance(0.35) or self.queue:
            question, reply = c.choice(self.tale.TALK)
            words = self.words()
            said = " ".join(capital(x) + "." for x in extra)
            if said and c.chance(0.5) or self.queue and c.chance(0.6):
                reply = noise(self.tell(c.choice(chatter.ACKS) + " " + c.choice(chatter.REPLIES)))
            else:
                said = (said + " " + noise(expand(c, question, words))).strip()
                reply = noise(expand(c, reply, words))
            return self.answer(said, reply, intent if intent in ("explore", "verify") else "explore")
        cue, thought, tool, arguments, kind = c.choice(self.tale.WORK[intent])
        if extra:
            thought, tool, arguments, kind = c.choice(self.tale.PLANT)
            return self.work("What do you have there?|Could you look again?|Anything new in the papers?", thought, tool, arguments, self.outputs.around(kind, extra, self.prose), "explore", ())
        self.work(cue, thought, tool, arguments, self.outputs.blob(kind), intent, ())

    # ---- what the user says

    def say(self, text):
        self.queue.append(capital(text))

    def small_talk(self):
        """Each saying once before any comes again."""
        self.sayings = self.sayings or self.c.shuffled(chatter.SMALL_TALK)
        self.say(noise(self.tell(self.sayings.pop())))

    def state_limit(self, item):
        """First statement of a constraint, marked, as the words of the user."""
        sentences = item["odd"] if self.is_odd() else item["plain"]
        template = self.c.choice(item["implicit"] if item["hinted"] and item["implicit"] else sentences)
        item["was_implicit"] = template in item["odd"] and template not in item["plain"] and not any(x in template for x in limits.SAID_PLAINLY)
        text = capital(self.tell(template, v=item["value"]))
        return salient("constraint", item["id"], text)

    def make_limits(self):
        c, rarity = self.c, self.knobs["rarity"]
        pool = [x for x in limits.LIMITS if self.domain in x["where"]]
        pool = pool[self.shift % len(pool):] + pool[:self.shift % len(pool)]
        n = 3 if self.n_turns < 30 else 4 if self.n_turns < 60 else c.int(5, 6)
        seen, asked = set(), []
        for x in pool:
            if len(asked) < n and (x["category"], str(x["gen"])) not in seen:
                seen.add((x["category"], str(x["gen"])))
                asked.append(x)
        for i, x in enumerate(c.shuffled(asked)):
            if isinstance(x["gen"], list):
                values = [v for v in c.sample(x["gen"], len(x["gen"])) if v not in self.world.values()][:5]
            else:
                values = [names.value(c, x["gen"], rarity, self.taken) for _ in range(5)]
            item = dict(x, id="C%d" % (i + 1), value=values[0], decoys=list(zip(values[1:], c.shuffled(x["decoys"]))), hinted=c.chance(0.55),
                        spare=values[4] if len(values) > 4 and not isinstance(x["gen"], list) else None, until=None, replaced=False)
            if item["spare"]:
                item["decoys"] = item["decoys"][:3]
            self.limits.append(item)

    def known_limits(self):
        return [x for x in self.limits if x["id"] in self.log.spans and x["until"] is None]

    def rumour(self, item, turn):
        for value, template in item["decoys"]:
            for _ in range(1 if self.c.chance(0.6) else 2):
                self.rumours.append((max(2, turn + self.c.int(-4, 7)), self.tell(template, d=value), value))

    def restate_limit(self):
        known = self.known_limits()
        if not known:
            return self.small_talk()
        item = self.c.choice(known)
        span = self.log.spans[item["id"]]
        text = self.tell(self.c.choice(item["again"]), v=item["value"]) if self.is_odd() else span["text"]
        self.say(self.c.choice(["To repeat:", "Once more:", "Just so it is not lost:", "A reminder:", "As I said,"]) + " " + again(item["id"], text.rstrip(".")) + ".")

    def respect(self):
        """The agent acts with a limit or a decision in mind: a use."""
        known = [(x["id"], x["value"], x["category"]) for x in self.known_limits()]
        chosen = [(x["id"], x["answer"], "decision") for x in self.choices if x["id"] in self.log.spans]
        pool = known + chosen
        if not pool:
            return self.filler()
        key, value, category = self.c.choice(pool)
        form = {"prohibition": "I stay away from {v} here.", "scope": "{v} stays as it is.", "budget": "This fits into the {v}.", "deadline": "There is time until {v}.",
                "format": "The hand-over form is {v}, so I prepare that.", "dependency": "It has to run on runtime {v}, I keep to old calls.", "licence": "I check that nothing under {v} comes along.",
                "privacy": "I leave out {v}.", "security": "I do this without {v}.", "accessibility": "With {v} in mind I choose the safer way.", "performance": "The limit of {v} allows this.",
                "style": "I keep to the wish for the text ({v}).", "decision": "As decided, {v}."}[category]
        text = again(key, capital(self.tell(form, v=value)))
        if self.is_talk:
            return self.answer(self.tell(self.c.choice(["Will you think of what I said?", "And you remember my conditions?", "Go on.", "How do you want to do it?", "What now?"])),
                               text + " " + self.tell(self.c.choice(["The {w0} part comes next.", "Now to the {a0} {w1}.", "I go on with the {w2}."])), "implement", [key])
        thought, tool, arguments, kind = self.c.choice(self.tale.WORK["implement"])
        self.work("", thought, tool, arguments, self.outputs.blob(kind), "implement", [key], prefix=text + " ")

    def change_limit(self):
        """A number moves: the old constraint ends, the new one begins."""
        known = [x for x in self.known_limits() if x["spare"] and not x["replaced"]]
        if not known:
            return
        item = self.c.choice(known)
        new = dict(item, id=item["id"] + "b", value=item["spare"], replaced=True, odd=item["plain"], hinted=False, spare=None, decoys=item["decoys"])
        item["replaced"] = True
        text = self.tell(self.c.choice(["it is no longer {old}: ", "forget the {old}; ", "things have moved, {old} is history. "]), old=item["value"])
        self.say(text + self.state_limit(new))
        self.limits.append(new)
        self.changes.append(("limit", item, new))

    def change_fact(self):
        known = [f for f in self.facts.values() if self.known(f) and f["busy"] < self.log.turns and not f["old"]]
        if not known:
            return
        fact = self.c.choice(known)
        old, new = fact["value"], names.value(self.c, fact["family"]["gen"], self.knobs["rarity"], self.taken)
        fact["old"].append(old)
        fact["value"], fact["span"], fact["said"] = new, fact["key"] + "'", None
        self.say(salient("fact", fact["span"], capital(self.tell(fact["family"]["anew"], e=fact["entity"], v=new).rstrip("."))) + self.tell(", so the old {old} is no longer valid.", old=old))
        self.changes.append(("fact", fact, old, new))
        turn = self.log.turns + self.draw_distance() + 1
        if turn < self.n_turns - 2:
            fact["busy"] = turn
            self.at(turn, 0, "turn", lambda: self.use(fact))

    def new_goal(self, index):
        goal = self.goal_list[index]
        is_back = index == 0
        template = self.c.choice(self.tale.BACK if is_back else self.tale.CHANGE)
        key = "G%d" % (len(self.goal_history) + 1)
        self.say(self.tell(template, goal=salient("goal", key, self.tell(goal))))
        self.goal_key = key
        self.changes.append(("goal", key, index))
        self.goal_history.append((key, index))

    def settle_changes(self):
        """After a user message has its step, what it changed gets it too."""
        for change in self.changes:
            if change[0] == "limit":
                _, item, new = change
                step = self.log.spans[new["id"]]["step"]
                item["until"] = step
                self.log.superseded.append({"key": "%s (%s)" % (item["category"], item["id"]), "old": item["value"], "new": new["value"], "step": step})
            elif change[0] == "fact":
                _, fact, old, new = change
                self.log.superseded.append({"key": fact["family"]["noun"] + " of " + fact["entity"], "old": old, "new": new, "step": self.log.spans[fact["span"]]["step"]})
            else:
                span = self.log.spans[change[1]]
                self.log.goal_changes.append({"step": span["step"], "text": span["text"]})
                self.goal_now = change[2]
        self.changes = []

    # ---- decisions and the plan

    def decide(self, topic):
        c = self.c
        key = "D%d" % (len(self.choices) + 1)
        options = c.shuffled(topic["options"])
        chosen, rest = options[0], c.shuffled(options[1:])
        lead = self.tell(c.choice(self.tale.WEIGH), topic=topic["topic"])
        form = c.choice(self.tale.DECIDE_ODD if self.is_odd() else self.tale.DECIDE)
        decision = salient("decision", key, capital(self.tell(form, o=chosen[0], r=chosen[1])))
        forms = ["for {o} one could say that {r}", "{o} has its friends, for {r}", "{r}, which speaks for {o}", "{o} would do, and {r}", "the good side of {o}: {r}", "with {o} there is this, {r}",
                 "{p3} would take {o}, as {r}"]
        lines = [capital(place("%s.%d" % (key, i), self.tell(c.choice(forms), o=o, r=r))) + "." for i, (o, r) in enumerate(rest)]
        lines.append(self.tell(c.choice(["There is also {o}.", "Nor should we forget {o}.", "{p1} mentioned {o} too."]), o=chosen[0]))
        against = " ".join(c.shuffled(lines))
        self.choices.append({"id": key, "topic": topic["topic"], "answer": chosen[0], "reason": chosen[1], "options": rest})
        for o, r in rest:
            if c.chance(0.75):
                self.rumours.append((self.log.turns + c.int(2, 14), self.tell(c.choice(["{p2} still speaks well of {o}", "somebody remarked that {r}", "in another project they use {o}", "{p3} would have preferred {o}"]), o=o, r=r), o))
        if self.is_talk:
            self.heard_first(lead)
            self.log.agent(against, "explore")
            self.owed = None
            self.queue.append(decision)
            return
        acknowledged = self.heard()
        text = lead + " " + against + " " + decision
        thought, tool, arguments, kind = c.choice(self.tale.WORK["implement"])
        self.log.call(text, [(tool, {k: self.tell(v) for k, v in arguments.items()}, self.outputs.blob(kind))], "implement")

    def heard_first(self, lead):
        if self.queue:
            self.queue.append(lead)
        self.heard(lead)

    def make_plan(self, n):
        items = [self.tell(x) for x in self.c.sample(self.pool_of_items, n)]
        self.pool_of_items = [x for x in self.pool_of_items if self.tell(x) not in items]
        number = len(self.plans) + 1
        self.plans.append({"items": items, "at": 0, "key": "plan%d" % number})
        rows = "\n".join("%d. %s" % (i + 1, place("plan%d.%d" % (number, i), x)) for i, x in enumerate(items))
        return salient("decision", "plan%d" % number, self.tell("«The plan:|My plan:|This is how I go about it:|Steps:»") + "\n" + rows)

    def finish_piece(self):
        """The last turn of a piece: a check that passes, and words that say so."""
        plan = self.plans[self.plan_now]
        item = plan["items"][min(plan["at"], len(plan["items"]) - 1)]
        plan["at"] += 1
        left = plan["items"][plan["at"]:]
        text = capital(self.tell(self.c.choice(self.tale.DONE), item=item))
        if left and self.c.chance(0.7):
            text += " " + self.tell(self.c.choice(["Still open, among others: {x}.", "Not forgotten: {x}.", "Later there is also this: {x}."]), x=self.c.choice(left))
        if self.is_talk:
            self.answer(self.tell(self.c.choice(["Is that part through?", "How far are we?", "Can we tick that off?", "Is one thing at least finished?", "And, is it done?", "What is behind us by now?", "Tell me something good.", "Did that work out?"])), text, "verify")
        else:
            self.heard()
            result = self.outputs.blob(self.c.choice(["pytest", "cargo", "make"]) if self.domain == "coding" else "counts")
            if "failed" in strip(result)[0] or "FAILED" in strip(result)[0]:
                result = "all checks passed"
            self.log.call(text, [("run", {"command": self.tell("make check-{w0}")}, result)], "verify")
        self.log.subtask_ends.append(self.log.last)
