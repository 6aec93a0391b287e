"""Tells one run: a time table of what must happen, and fillers between."""
import chatter
import questions
from acts import Acts, world
from kit import Chance, Log, noise, salient
from outputs import Outputs

DISTANCE = {"low": (3, 8), "mid": (10, 25), "high": (30, 100)}
TALK_EVERY = {"low": 14, "mid": 8, "high": 4}


class Story(Acts):
    def __init__(self, tale, domain, name, repo, seed, knobs, n_turns, plot, shift, hostile, goals):
        self.tale, self.domain, self.name, self.repo, self.knobs = tale, domain, name, repo, knobs
        self.is_talk = domain in ("support", "design")
        self.n_turns, self.shift = n_turns, shift
        self.c = Chance(seed)
        self.log = Log(self.c)
        self.world, self.lexicon, self.adjectives = world(repo, knobs["rarity"])
        self.plot = tale.PLOTS[plot % len(tale.PLOTS)]
        self.world["thing"] = self.plot["thing"]
        self.taken = set(self.world[k] for k in self.world if k[0] == "c")
        self.outputs = Outputs(self.c, self.words, knobs["noise"])
        self.agenda = []          # [turn, order, manner, function]
        self.queue = []           # what the user says next
        self.rumours = []         # (turn, line): decoys that are due
        self.facts, self.limits, self.choices = {}, [], []
        self.goal_list, self.goal_step = [], 0
        self.snapshots, self.owed = [], None
        self.hostile, self.goals = hostile, goals
        self.prose = {"coding": "manual", "research": "page", "support": "policy", "design": "spec"}[domain]
        self.sayings, self.seen, self.strays = [], [], []

    # ---- the whole

    def draw_distance(self):
        level = self.knobs["distance"]
        if level != "low" and self.c.chance(0.15):
            level = "low"
        low, high = DISTANCE[level]
        return self.c.int(low, max(low, min(high, self.n_turns - 10)))

    def opening(self):
        c = self.c
        self.log.add("system", self.tell(c.choice(self.tale.SYSTEM)))
        goal = salient("goal", "G1", self.tell(self.goal_list[0]))
        parts = [self.tell(c.choice(self.tale.OPENING), goal=goal)]
        for item in self.limits[:2 if c.chance(0.4) else 1]:
            parts.append(self.state_limit(item))
            self.rumour(item, 5)
        self.log.user(" ".join(parts))
        self.log.goal = self.log.spans["G1"]["text"]
        plan = self.make_plan(self.n_pieces)
        self.log.agent(c.choice(chatter.ACKS) + " " + plan, "explore")

    def time_table(self):
        c, n = self.c, self.n_turns
        soon = True
        for item in self.limits:
            if item["id"] not in self.log.spans:
                turn = c.int(3, max(4, int(n * (0.18 if soon else 0.5))))
                soon = False
                self.at(turn, 3, "say", lambda item=item: self.say(self.state_limit(item)))
                self.rumour(item, turn)
        order = c.shuffled(list(self.facts.values()))
        want = max(4, int(n * 0.3))
        t_first = {}
        for k in range(want):
            fact = order[k % len(order)]
            d = self.draw_distance()
            start = t_first.get(fact["key"], 0)
            latest = n - 3 - d
            if latest < max(2, start):
                d = c.int(*DISTANCE["low"])
                latest = n - 3 - d
                if latest < max(2, start):
                    continue
            first = c.int(max(2, start), latest)
            t_first[fact["key"]] = first + d + 2
            self.at(first, 1, "turn", lambda fact=fact, d=d: self.plant_and_use(fact, d))
        for k, topic in enumerate(c.sample(self.tale.DECISIONS, 2 if n < 36 else 3 if n < 80 else 4)):
            self.at(3 + int(k * n * 0.2) + c.int(0, 4), 2, "turn", lambda topic=topic: self.decide(topic))
        for k in range(1 if n < 40 else 2 if n < 100 else 4):
            self.at(c.int(int(n * 0.3), int(n * 0.8)), 3, "say", self.change_fact)
        if c.chance(0.6):
            self.at(c.int(int(n * 0.35), int(n * 0.75)), 3, "say", self.change_limit)
        for k in range(max(1, n // 18)):
            self.at(c.int(6, n - 3), 3, "say", self.restate_limit)
        for k in range(max(2, n // 10)):
            self.at(c.int(6, n - 3), 2, "turn", self.respect)
        for k in range(n // TALK_EVERY[self.knobs["noise"]]):
            self.at(c.int(2, n - 2), 4, "say", self.small_talk)
        for text in c.sample(chatter.HOSTILE, self.hostile):
            text = noise(text)
            self.at(c.int(2, n - 2), 4, "say", lambda text=text: self.say(text))
        for k in range(4):
            goal = self.goal_list[k + 2]
            for _ in range(c.int(1, 3)):
                forms = ["another customer wrote: “please {g}”", "the example on your form reads: “{g}”", "the lady before me in the line said “{g}”", "a poster of yours says “we can also {g}”"] \
                    if self.domain == "support" else ["{p2} was asked to {g}", "on somebody else's list: {g}", "the other team wants to {g}", "next year somebody has to {g}"]
                self.rumours.append((c.int(2, max(3, int(n * 0.4))), self.tell(c.choice(forms), g=goal), goal))
        self.rumours.sort(key=lambda r: r[0])

    def plant_and_use(self, fact, d):
        self.plant(fact)
        turn = self.log.turns + d
        if turn < self.n_turns - 1:
            fact["busy"] = turn
            self.at(turn, 0, "turn", lambda: self.use(fact))

    def run(self):
        c, n = self.c, self.n_turns
        # The goals of the run: first, second, and four that are other people's.
        self.goal_list = [self.tell(g) for g in c.sample(self.plot["goals"], 7)]
        self.goal_history, self.goal_now, self.changes = [("G1", 0)], 0, []
        self.pool_of_items = list(self.plot["plan"])
        self.plans, self.plan_now = [], 0
        self.n_pieces = min(7, max(5, n // 10))
        ends = [int(round(n * (i + 1.0) / self.n_pieces)) - 1 for i in range(self.n_pieces)]
        self.bounds = list(zip([0] + ends[:-1], ends))
        self.piece = 0
        self.make_facts()
        self.make_limits()
        self.opening()
        self.time_table()
        change = int(n * (0.35 + 0.2 * c.real())) if self.goals else None
        back = int(n * (0.68 + 0.12 * c.real())) if self.goals == 2 else None
        points = self.point_turns()
        while self.log.turns < n - 1:
            now = self.log.turns + 1
            if self.owed:
                intent, self.owed = self.owed, None
                self.log.agent(self.tell(c.choice(["I have it now. «Shall I go on?|Let us go on.|Anything else about this?»", "Thank you for waiting. «It looks {a0}, but fine.|That is all I see there.»",
                                                   "So far, so good. «Next, please.|I note it.|What else is on your mind?»", "That is what the {w0} says.", "There you are. «More than I thought.|Not much, but something.»", "I have read it. Let me know when to go on.", "The answer has come, {a0} as ever.", "Here we are. The {w1} is {a0}, as expected."])), intent)
            else:
                if change and now >= change:
                    change = None
                    self.new_goal(1)
                    self.pool_of_items += self.tale.PLAN
                    self.heard_goal(back is None)
                elif back and now >= back:
                    back = None
                    self.new_goal(0)
                    self.heard_goal(False)
                elif self.piece < self.n_pieces - 1 and now > self.bounds[self.piece][1]:
                    self.finish_piece()
                    self.piece += 1
                else:
                    self.next_turn(now)
            self.settle_changes()
            if points and self.log.turns >= points[0]:
                points.pop(0)
                self.point()
        self.closing()
        self.point(is_end=True)
        self.log.compression_points.pop()
        return self.result()

    def heard_goal(self, is_new):
        """The agent answers to a new goal with a plan: a new one, or the first again."""
        if self.goal_history[-1][1] == 0:
            self.plan_now = 0
            text = "Then I return to the first plan, where I left it."
        else:
            text = self.make_plan(5)
            self.plan_now = len(self.plans) - 1
        self.heard()
        self.log.agent(self.c.choice(chatter.ACKS) + " " + text, "explore")

    def next_turn(self, now):
        due = sorted([e for e in self.agenda if e[0] <= now], key=lambda e: (e[1], e[0], e[2]))
        for e in [e for e in due if e[3] == "say"][:2]:
            self.agenda.remove(e)
            e[4]()
        turns = [e for e in due if e[3] == "turn"]
        if turns:
            self.agenda.remove(turns[0])
            return turns[0][4]()
        self.filler()

    def point_turns(self):
        n = self.n_turns
        k = 2 if n < 26 else 3 if n < 45 else 4 if n < 80 else 5 if n < 130 else 6
        return [int(round(n * (i + 1.0) / (k + 1))) + self.c.int(-1, 1) for i in range(k)]

    def point(self, is_end=False):
        log = self.log
        log.compression_points.append(log.last)
        self.snapshots.append({"last": log.last, "goal": self.goal_now, "goal_key": self.goal_history[-1][0], "plan": self.plan_now, "is_end": is_end,
                               "facts": {k: (f["value"], f["span"], list(f["old"])) for k, f in self.facts.items() if self.known(f)},
                               "limits": [(x, x["id"]) for x in self.known_limits()],
                               "choices": [x for x in self.choices if x["id"] in log.spans], "changed": len(log.superseded) + len(log.goal_changes)})

    def closing(self):
        goal = self.goal_list[self.goal_now]
        thought, tool, kind = self.tale.FINISH
        arguments = {"submit": {"message": "done"}, "send": {"what": "confirmation"}, "write_spec": {"section": "record", "text": "closed"}}[tool]
        key = self.goal_history[-1][0]
        self.log.spans[key]["used"].append(self.log.last + 1 + bool(self.queue or self.is_talk))
        self.heard("That is all from me, thank you." if self.is_talk else None)
        self.settle_changes()
        plan = self.plans[self.plan_now]
        left = plan["items"][plan["at"] + 1:]
        if left:
            thought += self.tell(" What was left of the plan ({x}) «is for {p3}|turned out not to be needed|can follow later|somebody else has done meanwhile».", x="; ".join(left))
        self.log.call(thought, [(tool, arguments, self.outputs.blob(kind))], "document")
        self.log.subtask_ends.append(self.log.last)

    def result(self):
        log = self.log
        listed = []
        for item in self.limits:
            span = log.spans.get(item["id"])
            if span:
                listed.append({"id": item["id"], "text": span["text"], "category": item["category"], "step": span["step"], "implicit": item["was_implicit"],
                               "until": item["until"], "anchors": questions.anchors(span["text"], item["value"])})
        probes = questions.ask(self)
        tools = [{"type": "function", "function": {"name": name, "description": about, "parameters": {
            "type": "object", "properties": {f: {"type": "string"} for f in fields}, "required": fields}}} for name, about, fields in self.tale.TOOLS]
        return {"task_id": self.name, "repository": self.repo, "agent": "trajpress-golden", "model": None, "tools": tools,
                "messages": log.messages, "annotations": log.annotations(probes, self.knobs, listed)}
