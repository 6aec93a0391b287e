import unittest

from minilang.errors import SyntaxProblem
from minilang.lexer import tokenize


class LexerTest(unittest.TestCase):
    def texts(self, source):
        return [token.text for token in tokenize(source)]

    def test_symbols(self):
        self.assertEqual(self.texts("a==b<3"), ["a", "==", "b", "<", "3", ""])

    def test_comment_is_skipped(self):
        self.assertEqual(self.texts("1 # one\n+ 2"), ["1", "+", "2", ""])

    def test_positions(self):
        tokens = tokenize("a +\n  bc")
        self.assertEqual([(x.line, x.column) for x in tokens], [(1, 1), (1, 3), (2, 3), (2, 5)])

    def test_bad_character_position(self):
        with self.assertRaises(SyntaxProblem) as caught:
            tokenize("1 +\n  $")
        self.assertEqual((caught.exception.line, caught.exception.column), (2, 3))


if __name__ == "__main__":
    unittest.main()
