import unittest

from fetchq.bucket import Bucket

from tests.support import URL, client


class BucketTest(unittest.TestCase):
    def test_burst_is_free(self):
        b = Bucket(rate=6, burst=3, now=0.0)
        self.assertEqual([b.wait_for(0.0) for _ in range(3)], [0.0, 0.0, 0.0])

    def test_then_one_per_interval(self):
        b = Bucket(rate=2, burst=1, now=0.0)
        self.assertEqual([b.wait_for(0.0) for _ in range(3)], [0.0, 0.5, 1.0])

    def test_idle_time_does_not_exceed_burst(self):
        b = Bucket(rate=6, burst=12, now=0.0)
        waits = [b.wait_for(36000.0) for _ in range(14)]
        self.assertEqual(waits[:12], [0.0] * 12)
        self.assertGreater(waits[12], 0)

    def test_client_uses_one_bucket_per_host(self):
        c = client([(200, {})] * 4, burst=1, per_host=2)
        for host in ("a", "b", "a", "b"):
            c.get("https://%s.example.invalid/" % host)
        self.assertEqual(c.clock.slept, [0.5])


if __name__ == "__main__":
    unittest.main()
