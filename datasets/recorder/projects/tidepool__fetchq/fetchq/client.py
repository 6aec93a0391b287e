"""Sends requests: waits for the bucket, retries, keeps the total deadline."""
from collections import namedtuple
from urllib.parse import urlsplit

from .bucket import Bucket
from .clock import SystemClock
from .errors import Deadline, TooManyAttempts
from .retry import delay_ms, should_retry
from .stats import Stats

Response = namedtuple("Response", "status headers body")


class Client:
    def __init__(self, settings, transport, clock=None, stats=None):
        self.settings = settings
        self.transport = transport
        self.clock = clock or SystemClock()
        self.stats = stats or Stats()
        self.buckets = {}

    def get(self, url):
        return self._request("GET", url)

    def _bucket(self, host):
        if host not in self.buckets:
            self.buckets[host] = Bucket(self.settings.per_host, self.settings.burst, self.clock.now())
        return self.buckets[host]

    def _request(self, method, url):
        host = urlsplit(url).hostname
        deadline = self.clock.now() + self.settings.timeout_s
        attempt = 0
        while True:
            attempt += 1
            self._pause(self._bucket(host).wait_for(self.clock.now()), deadline)
            self.stats.add("sent", host)
            response = self.transport(method, url)
            if response.status < 400:
                return response
            self.stats.add("throttled" if response.status == 429 else "failed", host)
            if not should_retry(response.status, attempt, self.settings):
                raise TooManyAttempts(attempt, response.status)
            self.stats.add("retried", host)
            self._pause(delay_ms(attempt, response.headers, self.settings) / 1000, deadline)

    def _pause(self, seconds, deadline):
        if seconds <= 0:
            return
        if self.clock.now() + seconds > deadline:
            raise Deadline("%.3f s more would pass the deadline" % seconds)
        self.clock.sleep(seconds)
