"""A small expression language."""
from .errors import EvalError, MiniError, SyntaxProblem
from .interp import Interpreter, evaluate
from .parser import parse

__all__ = ["EvalError", "Interpreter", "MiniError", "SyntaxProblem", "evaluate", "parse"]
__version__ = "0.9.3"
