"""Splits source text into tokens."""
from . import tokens as t
from .errors import SyntaxProblem

SYMBOLS = sorted(set(t.POWER) | set(t.PUNCTUATION), key=len, reverse=True)


def tokenize(source):
    """Return the list of tokens of `source`, ended by an END token."""
    out = []
    line, start_of_line, i = 1, 0, 0
    while i < len(source):
        ch = source[i]
        column = i - start_of_line + 1
        if ch == "\n":
            line += 1
            start_of_line = i + 1
            i += 1
        elif ch.isspace():
            i += 1
        elif ch == "#":
            while i < len(source) and source[i] != "\n":
                i += 1
        elif ch.isdigit():
            j = i
            while j < len(source) and (source[j].isdigit() or source[j] in "._"):
                j += 1
            out.append(t.Token(t.NUMBER, source[i:j], line, column))
            i = j
        elif ch.isalpha() or ch == "_":
            j = i
            while j < len(source) and (source[j].isalnum() or source[j] == "_"):
                j += 1
            word = source[i:j]
            kind = t.KEYWORD if word in t.KEYWORDS else t.NAME
            out.append(t.Token(kind, word, line, column))
            i = j
        else:
            for symbol in SYMBOLS:
                if source.startswith(symbol, i):
                    out.append(t.Token(t.OP, symbol, line, column))
                    i += len(symbol)
                    break
            else:
                raise SyntaxProblem("unexpected character %r" % ch, line, column)
    out.append(t.Token(t.END, "", line, i - start_of_line + 1))
    return out
