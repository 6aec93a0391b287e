"""Prompts of full, drop-all, truncate and mask, by section 4 of docs/method.md; tokens and money, by section 5."""
import json

from atoms import BOUND


class Prompt:
    """What stands in the prompt, block by block: [step, tokens, whether whole, whether no event has had it, whether head]."""
    def __init__(self, log):
        self.log, self.blocks, self.logged, self.lost, self.again = log, [], [], set(), set()

    def append(self, step, head=False):
        self.blocks.append([step, step["n"], True, True, head])
        self.logged.append(step)
        self.again |= {a for a, _ in step["atoms"] if a in self.lost and step["kind"] == "observation"}

    def atoms(self, at, flag=None):
        return {a for b in self.blocks if b[at] for a, flags in b[0]["atoms"] if flag is None or flags & flag}

    def parts_a_pair(self):
        standing, logged = ({s["step"] for s in steps} for steps in ((b[0] for b in self.blocks), self.logged))
        for pair in self.log.pairs:
            parts = [{s["step"] for s in pair if s["kind"] == kind} & logged for kind in ("action", "observation")]
            if all(parts) and sum(bool(part & standing) for part in parts) == 1:
                return True
        return False

    def compress(self, scope, masks):
        """Returns the tokens before the first change, if there is one."""
        before, changed, blocks = 0, None, []
        for block in self.blocks:
            step, removable = block[0], not masks or block[0]["kind"] == "observation"
            is_in_scope = any(block is other for other in scope)
            n_lines = len(step["text"].split("\n")) - (step["text"][-1:] in ("", "\n"))
            short = 8 + -(-len(str(n_lines)) // 3) if masks else 0
            if is_in_scope and removable and (not masks or short < block[1]):
                changed = before if changed is None else changed
                block[1], block[2] = short, False
            if is_in_scope:
                block[3] = False
            blocks += [block] if masks or not is_in_scope else []
            before += block[1]
        self.blocks = blocks
        self.lost |= {a for block in scope for a, _ in block[0]["atoms"]} - self.atoms(3)
        return changed


def scope_end(log, turns, turn, counted, polling, keep_last):
    observed = {u: 1 + sum(s["kind"] == "observation" and s["turn"] < u and s["segment"] == log.segment(turn)
                           for s in log.steps) for u in turns if u <= turn}
    newest = max((u for u in observed if observed[u] <= observed[turn] // polling * polling), default=0)
    return min(counted, newest - keep_last)


def replay(log, variant):
    """The decisions of a log under a variant, and of each event whether it violates an invariant."""
    p, t = json.loads(variant["strategy_params"]), json.loads(variant["trigger_params"])
    masks, decisions, events, last_event = variant["strategy"] == "mask", [], [], 0
    for segment in sorted({log.segment(turn) for turn in log.turns if turn}):
        turns = [turn for turn in sorted(log.turns) if turn and log.segment(turn) == segment]
        kept, prompt = log.kept_in(segment), Prompt(log)
        counted, done = turns[0], kept[0]["turn"] if kept else turns[0]
        cached_sent = cached_full = sum(s["n"] for s in log.turns[0]) if turns[0] > 1 else 0
        for s in log.turns[0] + [s for s in log.steps if s["pinned"] and s["segment"] < segment]:
            prompt.append(s, head=True)
        for turn in turns:
            before, after = log.split(turn)
            for s in before:
                is_summary = s["kind"] == "compaction"
                if not is_summary or s["text"]:
                    prompt.append(s, head=is_summary)
                for k in kept if is_summary else ():
                    prompt.append(k)
            if not after:
                continue
            end = 0
            if variant["trigger"] == "turns" and turn - counted >= t["n"] + t["keep"]:
                counted = turn - t["keep"]
                end = scope_end(log, turns, turn, counted, p.get("polling", 1), p.get("keep_last", 0))
            scope = [b for b in prompt.blocks if end > done and not b[4] and b[3] and not b[0]["pinned"]
                     and b[0]["due"] < end]
            done = max(done, end)
            if scope:
                events.append(False)
                last_event = turn
                changed = prompt.compress(scope, masks)
                cached_sent = cached_sent if changed is None else min(cached_sent, changed)
            if events:
                events[-1] |= prompt.parts_a_pair()
            sent, full = sum(b[1] for b in prompt.blocks), sum(s["n"] for s in prompt.logged)
            decisions.append({
                "turn": turn, "time": after[0]["time"], "sent": sent, "full": full,
                "out": sum(s["n"] for s in after if s["role"] == "agent"), "events": len(events),
                "cached_sent": cached_sent, "cached_full": cached_full, "since": turn - last_event,
                "fresh": prompt.atoms(3), "again": set(prompt.again),
                "surface": prompt.atoms(2), "bound": prompt.atoms(2, BOUND)})
            cached_sent, cached_full = sent, full
            for s in after:
                prompt.append(s)
        if events:
            events[-1] |= prompt.parts_a_pair()
    return decisions, events


def write_price(log, price):
    """What a token written to the cache costs, for how long it lives, and how likely it is gone where no times are logged."""
    known = [(s["usage_cache_write"], s["usage_cache_write_1h"]) for s in log.steps]
    known = [(all, hour) for all, hour in known if all is not None and hour is not None]
    if "cache_write_1h" in price and 2 * sum(hour for _, hour in known) > sum(all for all, _ in known):
        return price["cache_write_1h"], 3600, min(price.get("cache_gone", 0), 0.0013)
    return price["cache_write"], price["cache_lifetime"], price.get("cache_gone", 0)


def dearer(price, prompt):
    """How many times as much the tokens of a prompt cost, and those of its answer."""
    is_long = "dearer_above" in price and prompt > price["dearer_above"]
    return (price["dearer_prompt"], price["dearer_output"]) if is_long else (1, 1)


def bills(log, decisions, price):
    """Of each decision (sent, full): the provider's count where known, cost with a cache, and without."""
    was, last = None, None
    for d in decisions:
        rate = next(((r["unseen"], r["factor"]) for r in log.rates if r["first_turn"] <= d["turn"] < r["end_turn"]), None)
        a, b = rate or (0, 1)
        unseen_cached = 0 if last is None else a if was is None else min(a, was)
        write, lifetime, gone = write_price(log, price)
        if last is None:
            alive = 1
        elif None in (d["time"], last["time"]):
            alive = 1 - gone
        else:
            alive = (d["time"] - last["time"]).total_seconds() <= lifetime
        out = price["output"] * b * d["out"]
        bill = {}
        for key in ("sent", "full"):
            prompt, cached = a + b * d[key], alive * (unseen_cached + b * d["cached_" + key])
            of_prompt, of_answer = dearer(price, prompt)
            cost = price["cache_read"] * cached + write * (prompt - min(cached, prompt))
            costs = (of_prompt * cost + of_answer * out, of_prompt * price["fresh"] * prompt + of_answer * out)
            bill[key] = (prompt if rate else 0, *costs)
        was, last = a if rate else None, d
        yield bill["sent"], bill["full"], rate is not None
