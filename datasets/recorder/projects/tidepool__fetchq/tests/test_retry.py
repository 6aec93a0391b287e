import unittest

from fetchq import Deadline, TooManyAttempts, load_settings
from fetchq.retry import backoff_ms, delay_ms

from tests.support import URL, client

SETTINGS = load_settings(environ={})


class BackoffTest(unittest.TestCase):
    def test_doubles(self):
        self.assertEqual([backoff_ms(n, SETTINGS) for n in (1, 2, 3)], [250, 500, 1000])

    def test_is_capped(self):
        self.assertEqual(backoff_ms(9, SETTINGS), 4000)

    def test_retry_after_is_seconds(self):
        self.assertEqual(delay_ms(1, {"retry-after": "3"}, SETTINGS), 3000)

    def test_retry_after_above_the_cap(self):
        self.assertEqual(delay_ms(1, {"retry-after": "7"}, SETTINGS), 7000)


class RetryTest(unittest.TestCase):
    def test_second_try_succeeds(self):
        c = client([(503, {}), (200, {})])
        self.assertEqual(c.get(URL).status, 200)
        self.assertEqual(c.clock.slept, [0.25])

    def test_gives_up(self):
        c = client([(500, {})] * 4)
        with self.assertRaises(TooManyAttempts) as caught:
            c.get(URL)
        self.assertEqual((caught.exception.attempts, caught.exception.last_status), (4, 500))

    def test_not_found_is_final(self):
        c = client([(404, {})])
        with self.assertRaises(TooManyAttempts):
            c.get(URL)
        self.assertEqual(c.clock.slept, [])

    def test_deadline_covers_all_attempts(self):
        c = client([(503, {"retry-after": "20"}), (503, {"retry-after": "20"}), (200, {})])
        with self.assertRaises(Deadline):
            c.get(URL)
        self.assertEqual(c.clock.slept, [20.0])


if __name__ == "__main__":
    unittest.main()
