import unittest

from minilang import EvalError, evaluate


class InterpTest(unittest.TestCase):
    def test_arithmetic(self):
        self.assertEqual(evaluate("2 * (3 + 4) - 6 / 3"), 12)

    def test_power_tower(self):
        self.assertEqual(evaluate("2 ^ 3 ^ 2"), 512)

    def test_negative_square(self):
        self.assertEqual(evaluate("-3 ^ 2"), -9)

    def test_let_shadows(self):
        self.assertEqual(evaluate("let x = 1 in let x = x + 1 in x * 10"), 20)

    def test_let_does_not_leak(self):
        with self.assertRaises(EvalError):
            evaluate("(let y = 2 in y) + y")

    def test_if(self):
        self.assertEqual(evaluate("if n > 3 then 1 else 0", n=4), 1)

    def test_division_by_zero(self):
        with self.assertRaises(EvalError):
            evaluate("1 / (2 - 2)")

    def test_call(self):
        self.assertEqual(evaluate("max(abs(-4), 3)"), 4)


if __name__ == "__main__":
    unittest.main()
