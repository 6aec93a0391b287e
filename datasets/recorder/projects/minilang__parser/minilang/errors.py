"""Errors with a position in the source."""


class MiniError(Exception):
    """Base of all errors that a program can cause."""


class SyntaxProblem(MiniError):
    def __init__(self, message, line, column):
        super().__init__("%d:%d: %s" % (line, column, message))
        self.line = line
        self.column = column


class EvalError(MiniError):
    pass
