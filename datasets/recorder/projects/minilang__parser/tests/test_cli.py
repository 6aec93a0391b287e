import contextlib
import io
import os
import unittest

from minilang.cli import main

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "examples")


def call(*argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(argv))
    return code, out.getvalue(), err.getvalue()


class CliTest(unittest.TestCase):
    def test_expression(self):
        self.assertEqual(call("1 + 2 * 3"), (0, "7\n", ""))

    def test_usage(self):
        self.assertEqual(call()[0], 64)

    def test_broken_file_names_the_place(self):
        code, out, err = call("-f", os.path.join(EXAMPLES, "broken.ml"))
        self.assertEqual((code, out), (65, ""))
        self.assertEqual(err, "error: 3:21: expected ')', found 'in'\n")


if __name__ == "__main__":
    unittest.main()
