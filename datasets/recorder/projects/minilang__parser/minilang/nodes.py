"""The syntax tree."""
from collections import namedtuple

Number = namedtuple("Number", "value")
Name = namedtuple("Name", "id")
Unary = namedtuple("Unary", "op operand")
Binary = namedtuple("Binary", "op left right")
Call = namedtuple("Call", "name args")
Let = namedtuple("Let", "name value body")
If = namedtuple("If", "test then other")
