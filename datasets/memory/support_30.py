#!/usr/bin/env python3
"""Writes the talk of thirty turns and the truth of its importance: `python3 datasets/memory/support_30.py`.

Makes support-30.jsonl (annotated form) and importance.toml (one table a message) from the one text below, so that no
step, turn or offset is typed by hand. Marks are those of the recorder: `[[type|text]]` is a salient span.
"""
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recorder"))
from dialogue import Talk, line  # noqa: E402
from writers import dumps  # noqa: E402

LOW, MEDIUM, HIGH = "low", "medium", "high"
SYSTEM = "You are a support agent of Brackwater Hosting. Be friendly and brief. Delete nothing without asking. Ask one thing at a time."
HEAD = """\
# What each message of support-30.jsonl is worth at the end of the talk; made by support_30.py, see README.md.
#
# importance  low: goes first, nothing is lost with it; medium: helps, may be summarised; high: must stay, word for word
# kind        what the message is for
# why         what the level rests on
# trap        how the rules of the seed judge it wrongly (they begin at 5): `high`, scored above 5 though low; `low`,
#             scored below 5 though high; `unseen`, no rule applies though it is high; `pair`, of low worth and scored
#             below the other message of its pair, which is of high worth and is dropped with it
# needs       steps without which this one cannot be understood
# repeats     the step that already says it
"""


class Rated(Talk):
    """A talk whose messages also say what they are worth."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ratings, self.steps = [], {}

    def say(self, role, level, kind, why, text, name=None, needs=(), trap=None, repeats=None):
        step = len(self.messages)
        if role == "user":
            self.u(text)
        else:
            self.a(text)
        if name:
            self.steps[name] = step
        row = {"step": step, "turn": (step + 1) // 2, "role": role, "importance": level, "kind": kind, "why": why}
        if trap:
            row["trap"] = trap
        if needs:
            row["needs"] = [self.steps[n] for n in needs]
        if repeats:
            row["repeats"] = self.steps[repeats]
        self.ratings.append(row)

    def user(self, *args, **more):
        self.say("user", *args, **more)

    def agent(self, *args, **more):
        self.say("assistant", *args, **more)


def talk():
    t = Rated("brackwater__hosting-30", "brackwater/hosting", SYSTEM)
    u, a = t.user, t.agent
    u(LOW, "greeting", "says nothing", "Hi!")
    a(LOW, "greeting", "says nothing", "Hello, this is Brackwater Hosting. What can I do for you?")

    u(HIGH, "goal", "what the talk is about", "[[goal|Our web shop has been broken since this morning and I need it to work again]].", trap="unseen")
    a(LOW, "question", "its answer says it too", "I'm sorry to hear that. Which account is it about?", trap="high")

    u(LOW, "filler", "says nothing", "Hmm, let me think")
    a(LOW, "filler", "says nothing", "Take your time.")

    u(HIGH, "identifier", "asked for once, needed for every action", "[[fact|My account ID is ABC123]].")
    a(LOW, "filler", "an acknowledgement; the pair rule takes the account ID with it", "Thank you, one moment.", trap="pair")

    u(LOW, "filler", "says nothing", "Thanks!")
    a(LOW, "question", "its answer says it too", "I have it open. What do you see in the browser when it breaks?")

    u(HIGH, "symptom", "the code that is searched for", "[[fact|I'm getting error code 500]], but only at the checkout; the catalogue loads.")
    a(LOW, "question", "its answer says it too", "Good to know. Since when exactly?", trap="pair")

    u(MEDIUM, "time", "leads to the cause; the log says it better later", "The last order came in a little after two in the night.")
    a(LOW, "waiting", "says nothing that lasts", "I look into the log of the server.")

    u(LOW, "filler", "says nothing; the seed's rule for `sure` wants it to stand alone", "Sure, go ahead")
    a(HIGH, "finding", "the cause; the decision rests on it", "[[fact|The payment plugin 7.3.0 needs PHP 8.2, and your server has 8.1]].", name="cause", trap="unseen")

    u(LOW, "worry", "answered, and of no use later", "Is it something that I did wrong?")
    a(MEDIUM, "finding", "explains why the last advice matters", "No, the plugin updated itself at 02:14; its automatic updates are on.")

    u(HIGH, "deadline", "a thank-you in front, a day of the week behind: the seed's rules see only the first",
      "Thank you, that's a relief. [[constraint:C1:deadline|I need this resolved by Friday]], on Saturday we have a stall at the harbour fair.", trap="low")
    a(MEDIUM, "options", "the two ways; what was chosen stands below", "By Friday, then. There are two ways: move the server to PHP 8.2, or take the plugin back to 7.2.4.")
    t.point()

    u(LOW, "question", "the answer says it too", "What's the difference?")
    a(MEDIUM, "arguments", "why the other way lost, partly said again in the decision",
      "PHP 8.2 is the lasting cure, but nobody has tried your theme with it. Going back takes five minutes and holds until you lift it.")

    u(HIGH, "decision", "a choice and a limit that begin with `Hmm`", "Hmm. Back to 7.2.4, then; [[constraint:C2:scope|the theme must not break before the fair]].", trap="low")
    a(HIGH, "decision", "what is done, and why", "[[decision|I take the plugin back to 7.2.4, because your theme is untested with PHP 8.2.]]", needs=("cause",), trap="unseen")

    u(LOW, "small talk", "full of words of the seed's list (phone, problem), and worth nothing",
      "My phone just rang, a customer wanted to know whether there's a problem with her favourite jam. There is none, I ate it.", trap="high")
    a(LOW, "small talk", "says nothing", "Then that case is closed as well.")

    u(LOW, "question", "the answer says it too", "Does the repair cost anything?")
    a(MEDIUM, "fact", "asked twice; one of the two answers should stay", "No, it's covered by your plan.", name="price")

    u(LOW, "filler", "says nothing; the pair rule takes the question with it", "OK", trap="pair")
    a(HIGH, "question", "without it, the `No` that follows refuses nothing", "May I delete [[fact|the copy of the shop from last night]]? It fills your disk.", name="may", trap="unseen")

    u(HIGH, "refusal", "one word that forbids something; the seed's rules take it for a filler", "[[constraint:C3:prohibition|No]]", needs=("may",), trap="low")
    a(LOW, "filler", "an acknowledgement", "All right.")

    u(HIGH, "contact", "who answers later; begins with `His`, which the seed's rule for `hi` takes for a greeting",
      "His name is Tomas, my brother's I mean: [[fact|from Thursday noon he looks after the shop]], I'm on the ferry.", trap="low")
    a(LOW, "question", "its answer says it too", "Noted. Shall we call him if something is unclear?")

    u(HIGH, "preference", "how to be reached", "[[constraint:C4:no_contact|Please don't ring either of us]], the saws are on all day. [[fact|Write to workshop@example.com]].", trap="unseen")
    a(LOW, "filler", "an acknowledgement; the pair rule takes the preference with it", "OK", trap="pair")

    u(LOW, "small talk", "more than thirty words, so the seed's rules raise it",
      "How's the weather over there, by the way? Here it rains sideways, the gulls walk instead of flying, and my neighbour swears that his cellar has a tide of its own, twice a day, with a small crab in it.", trap="high")
    a(LOW, "small talk", "says nothing", "Grey and dry. I'd take the crab.")

    u(LOW, "filler", "says nothing", "lol")
    a(MEDIUM, "status", "what was done; the test below shows it", "Back to the shop: the plugin is at 7.2.4 now. Please open the checkout once more.")
    t.point()

    u(HIGH, "symptom", "a second fault; the first code stays a fact of its own", "Now the page says [[fact|502 instead]].", trap="unseen")
    a(MEDIUM, "finding", "explains the second fault, which is over", "502 is PHP itself that doesn't answer; it was still the old process. I restart it.")

    u(LOW, "filler", "says nothing", "OK, sure")
    a(MEDIUM, "steps", "how to test; done a moment later",
      "1. Open the checkout in a private window. 2. Pay with the test card that ends in 4242. 3. Tell me the number of the order.")

    u(HIGH, "outcome", "the proof that it works", "It went through! [[fact|Order 20-3317]].")
    a(HIGH, "outcome", "the first goal is reached", "[[fact|Then the checkout works again]].", trap="unseen")
    t.done()

    u(LOW, "filler", "says nothing", "Yay!")
    a(HIGH, "identifier", "a ticket whose number begins with letters, which the seed's rule does not see",
      "For the lasting cure, the move to PHP 8.2, I opened [[fact|ticket TK-40817]].", trap="unseen")

    u(MEDIUM, "question", "a limit in the form of a question; said again by the date", "Can that wait until after the fair?")
    a(MEDIUM, "offer", "replaced by the customer's next words", "Of course. Shall we say the 9th?")

    u(HIGH, "date", "a date and hours without any word of the seed's list", "[[constraint:C5:schedule|Make it the 12th, between six and eight in the morning]].", trap="unseen")
    t.superseded("appointment", "the 9th", "the 12th")
    a(LOW, "filler", "an acknowledgement with a word of the seed's list", "No problem, that's early enough for both of us.", trap="high")

    u(HIGH, "budget", "begins with `Highest`, which the seed's rule for `hi` takes for a greeting",
      "[[constraint:C6:budget|Highest I can go for checking the theme is 60 euros]].", trap="low")
    a(HIGH, "decision", "what is booked, and for how much", "[[decision|The check of the theme costs 45 euros, and I book it together with the move on the 12th.]]", trap="unseen")

    u(LOW, "repeated question", "was asked and answered before", "Sorry, does today's repair cost anything? I forgot what you said.")
    a(LOW, "repeated answer", "was said before", "Nothing at all, it's covered by your plan.", repeats="price")

    u(LOW, "question", "the answer says it too", "And what do I have to do until then?")
    a(HIGH, "advice", "what goes wrong if it is forgotten", "Only one thing: [[fact|leave the automatic updates of the plugin off]], or 7.3.0 comes back overnight.", trap="unseen")

    u(LOW, "filler", "says nothing; part of the newest pair, which is never dropped", "Thanks, bye!")
    a(LOW, "greeting", "says nothing; part of the newest pair, which is never dropped", "Goodbye, and good luck at the fair!")
    t.done()

    t.probe("goal", "What did the customer want?", "a web shop that works again", "a new web shop", "a refund for the plugin", "a stall at the fair")
    t.probe("artifact", "Which account was it about?", "ABC123", "ABC132", "TK-40817", "20-3317")
    t.probe("artifact", "Which code did the checkout show first?", "500", "502", "503", "404")
    t.probe("constraint", "By which day had the shop to work?", "Friday", "Thursday", "Saturday", "the 12th")
    t.probe("constraint", "What may be done with the copy from last night?", "it may not be deleted", "it may be deleted", "it may be moved to another disk", "it may be sent to Tomas")
    t.probe("constraint", "How may the customer be reached?", "by mail", "by telephone", "by telephone through Tomas", "not at all")
    t.probe("decision", "Why was the plugin taken back?", "because the theme is untested with PHP 8.2", "because PHP 8.2 costs more", "because 7.3.0 has no payments", "because the disk was full")
    t.probe("constraint", "When is the move to PHP 8.2?", "on the 12th, in the morning", "on the 9th, in the morning", "on Friday, in the evening", "on Thursday at noon")
    t.probe("constraint", "How much may the check of the theme cost at most?", "60 euros", "45 euros", "90 euros", "nothing")
    t.probe("continuation", "What must stay off until the move?", "the automatic updates of the plugin", "the saws", "the checkout", "the test card")
    return t


def toml(ratings):
    out = [HEAD]
    for row in ratings:
        out.append("\n[[message]]\n" + "".join("%s = %s\n" % (k, dumps(v)) for k, v in row.items()))
    return "".join(out)


def files():
    t = talk()
    return {"support-30.jsonl": line(t), "importance.toml": toml(t.ratings)}


if __name__ == "__main__":
    for name, text in files().items():
        (HERE / name).write_text(text, encoding="utf-8")
