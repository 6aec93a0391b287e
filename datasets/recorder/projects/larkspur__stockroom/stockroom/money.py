"""Cents and percentages; see docs/POLICY.md, rule 1."""


def percent(cents, rate):
    """`rate` percent of `cents`, rounded half up."""
    return (cents * rate + 50) // 100


def show(cents):
    sign = "-" if cents < 0 else ""
    return "%s%d.%02d" % (sign, abs(cents) // 100, abs(cents) % 100)
