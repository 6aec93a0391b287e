import unittest

from minilang import SyntaxProblem, parse
from minilang.nodes import Binary, Number, Unary


class ParserTest(unittest.TestCase):
    def test_product_before_sum(self):
        self.assertEqual(parse("1+2*3"), Binary("+", Number(1), Binary("*", Number(2), Number(3))))

    def test_difference_is_left(self):
        self.assertEqual(parse("7-3-2"), Binary("-", Binary("-", Number(7), Number(3)), Number(2)))

    def test_power_is_right(self):
        self.assertEqual(parse("2^3^2"), Binary("^", Number(2), Binary("^", Number(3), Number(2))))

    def test_minus_before_power(self):
        self.assertEqual(parse("-2^2"), Unary("-", Binary("^", Number(2), Number(2))))

    def test_missing_parenthesis(self):
        with self.assertRaises(SyntaxProblem) as caught:
            parse("(1 + 2")
        self.assertEqual(str(caught.exception), "1:7: expected ')', found 'end of input'")

    def test_underscores_in_numbers(self):
        self.assertEqual(parse("1_000"), Number(1000))


if __name__ == "__main__":
    unittest.main()
