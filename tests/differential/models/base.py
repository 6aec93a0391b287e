"""What the models share: messages as items, and the rules that several libraries have in common."""

from functools import cached_property

from harness import SUMMARY, Session, calls_key, tokens


class Item:
    """One message: `at` is its place in the list, None for one that the policy made."""

    def __init__(self, role, text, at=None, calls=(), call=None, name=None):
        self.role, self.text, self.at, self.calls, self.call, self.name = role, text, at, list(calls), call, name

    @cached_property
    def key(self):
        return calls_key((c["name"], c["args"]) for c in self.calls)

    @cached_property
    def tok(self):
        return tokens(self.text + self.key)

    def but(self, **changed):
        kept = {k: v for k, v in self.__dict__.items() if k not in ("key", "tok")}
        return Item(**(kept | changed))


class Model(Session):
    """A rule in plain Python. It stands where a driver stands, so that the harness makes the same lines of it."""

    def native(self, at, m):
        return Item(m["role"], m["text"], at, m.get("calls", []), m.get("call"), m.get("name"))

    def view(self, item):
        yield item.at, item.role, item.text, item.key

    def __getattr__(self, name):  # a setting that is not given
        if name.startswith("__") or name not in self.DEFAULTS and name not in self.settings:
            raise AttributeError(name)
        return self.settings.get(name, self.DEFAULTS.get(name))

    DEFAULTS = {}

    def policy(self):
        return self.state


def total(items):
    return sum(i.tok for i in items)


def user(text=SUMMARY):
    return Item("user", text)


def newest_within(items, budget, size=lambda i: i.tok):
    """How many of the newest items fit into the budget; the first that does not fit ends it."""
    kept = 0
    for item in reversed(items):
        budget -= size(item)
        if budget < 0:
            break
        kept += 1
    return kept


def steps(items):
    """Lists of items: an assistant with calls and the results right after it, or one item."""
    made = []
    for item in items:
        if item.role == "tool" and made and (made[-1][0].calls or made[-1][0].role == "tool"):
            made[-1].append(item)
        else:
            made.append([item])
    return made
