import os
import unittest

from fetchq import load_settings

INI = os.path.join(os.path.dirname(__file__), "..", "fetchq.ini")


class ConfigTest(unittest.TestCase):
    def test_defaults(self):
        self.assertEqual(load_settings(environ={}).timeout_s, 30)

    def test_file(self):
        self.assertEqual(load_settings(INI, environ={}).burst, 12)

    def test_environment_wins(self):
        self.assertEqual(load_settings(INI, environ={"FETCHQ_PER_HOST": "3"}).per_host, 3)


if __name__ == "__main__":
    unittest.main()
