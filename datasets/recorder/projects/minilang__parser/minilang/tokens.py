"""Kinds of tokens and the table of operators."""
from collections import namedtuple

Token = namedtuple("Token", "kind text line column")

NUMBER = "number"
NAME = "name"
OP = "op"
KEYWORD = "keyword"
END = "end"

KEYWORDS = {"let", "in", "if", "then", "else"}

# Binding power of binary operators; a higher number binds tighter.
POWER = {
    "==": 10,
    "<": 10,
    ">": 10,
    "+": 20,
    "-": 20,
    "*": 30,
    "/": 30,
    "^": 50,
}
UNARY_POWER = 40
RIGHT = {"^"}
PUNCTUATION = "(),="
