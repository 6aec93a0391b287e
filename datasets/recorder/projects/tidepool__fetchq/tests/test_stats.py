import unittest

from tests.support import HOST, URL, client


class StatsTest(unittest.TestCase):
    def test_throttled_is_no_failure(self):
        c = client([(429, {"retry-after": "1"}), (503, {}), (200, {})])
        c.get(URL)
        self.assertEqual(c.stats.value("throttled", HOST), 1)
        self.assertEqual(c.stats.value("failed", HOST), 1)

    def test_render(self):
        c = client([(429, {"retry-after": "1"}), (200, {})])
        c.get(URL)
        self.assertIn('fetchq_throttled_total{host="ledger.example.invalid"} 1', c.stats.render())


if __name__ == "__main__":
    unittest.main()
