"""Counters, printed in the text form that a scraper reads."""
from collections import Counter


class Stats:
    NAMES = {
        "sent": "fetchq_requests_total",
        "failed": "fetchq_failures_total",
        "throttled": "fetchq_throttled_total",
        "retried": "fetchq_retries_total",
    }

    def __init__(self):
        self.counts = Counter()

    def add(self, what, host):
        self.counts[self.NAMES[what], host] += 1

    def value(self, what, host):
        return self.counts[self.NAMES[what], host]

    def render(self):
        lines = ['%s{host="%s"} %d' % (name, host, n) for (name, host), n in sorted(self.counts.items())]
        return "\n".join(lines) + "\n" if lines else ""
