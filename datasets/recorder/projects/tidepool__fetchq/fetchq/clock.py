"""Time that tests can move by hand."""
import time


class SystemClock:
    def now(self):
        return time.monotonic()

    def sleep(self, seconds):
        time.sleep(seconds)


class FakeClock:
    def __init__(self, start=1000.0):
        self.time = start
        self.slept = []

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.slept.append(round(seconds, 3))
        self.time += seconds
