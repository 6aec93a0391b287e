"""Command line: evaluate the argument or a file."""
import sys

from .errors import MiniError
from .interp import Interpreter

EXIT_USAGE = 64
EXIT_DATA = 65


def main(argv):
    if not argv:
        print("usage: python3 -m minilang EXPRESSION | -f FILE", file=sys.stderr)
        return EXIT_USAGE
    if argv[0] == "-f":
        with open(argv[1], encoding="utf-8") as handle:
            source = handle.read()
    else:
        source = " ".join(argv)
    try:
        print(Interpreter().run(source))
    except MiniError as error:
        print("error: %s" % error, file=sys.stderr)
        return EXIT_DATA
    return 0
