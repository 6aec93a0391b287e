import unittest

from confstack import ConfigError, expand, merge


class MergeTest(unittest.TestCase):
    def test_nested(self):
        self.assertEqual(merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}), {"a": {"b": 3, "c": 2}})

    def test_extend(self):
        self.assertEqual(merge({"x": [1]}, {"+x": [2]}), {"x": [1, 2]})

    def test_base_is_not_changed(self):
        base = {"x": [1]}
        merge(base, {"+x": [2]})
        self.assertEqual(base, {"x": [1]})


class ExpandTest(unittest.TestCase):
    def test_reference(self):
        self.assertEqual(expand({"root": "/srv", "log": "${root}/log"})["log"], "/srv/log")

    def test_chain(self):
        tree = {"root": "/srv", "data": "${root}/data", "cache": "${data}/cache"}
        self.assertEqual(expand(tree)["cache"], "/srv/data/cache")

    def test_missing(self):
        with self.assertRaisesRegex(ConfigError, "no such key: nope"):
            expand({"a": "${nope}"})

    def test_cycle_is_an_error(self):
        with self.assertRaisesRegex(ConfigError, "cycle: a -> b -> a"):
            expand({"a": "${b}", "b": "${a}"})


if __name__ == "__main__":
    unittest.main()
