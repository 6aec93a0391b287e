"""A Pratt parser: tokens to tree."""
from . import nodes
from . import tokens as t
from .errors import SyntaxProblem
from .lexer import tokenize


class Parser:
    def __init__(self, source):
        self.tokens = tokenize(source)
        self.pos = 0

    @property
    def current(self):
        return self.tokens[self.pos]

    def advance(self):
        token = self.current
        self.pos += 1
        return token

    def fail(self, message, token=None):
        token = token or self.current
        raise SyntaxProblem(message, token.line, token.column)

    def expect(self, text):
        if self.current.text != text:
            found = self.current.text or "end of input"
            self.fail("expected %r, found %r" % (text, found))
        return self.advance()

    def program(self):
        tree = self.expression(0)
        if self.current.kind != t.END:
            self.fail("unexpected %r" % self.current.text)
        return tree

    def expression(self, least):
        left = self.prefix()
        while True:
            op = self.current
            power = t.POWER.get(op.text) if op.kind == t.OP else None
            if power is None or power < least:
                return left
            self.advance()
            right = self.expression(power if op.text in t.RIGHT else power + 1)
            left = nodes.Binary(op.text, left, right)

    def prefix(self):
        token = self.advance()
        if token.kind == t.NUMBER:
            return nodes.Number(self.number(token))
        if token.kind == t.NAME:
            if self.current.text == "(":
                return self.call(token)
            return nodes.Name(token.text)
        if token.text == "-":
            return nodes.Unary("-", self.expression(t.UNARY_POWER))
        if token.text == "(":
            inner = self.expression(0)
            self.expect(")")
            return inner
        if token.text == "let":
            return self.let()
        if token.text == "if":
            return self.conditional()
        self.pos -= 1
        self.fail("expected an expression, found %r" % (token.text or "end of input"), token)

    def number(self, token):
        text = token.text.replace("_", "")
        if text.count(".") > 1:
            self.fail("bad number %r" % token.text, token)
        return float(text) if "." in text else int(text)

    def call(self, name):
        self.expect("(")
        args = []
        if self.current.text != ")":
            args.append(self.expression(0))
            while self.current.text == ",":
                self.advance()
                args.append(self.expression(0))
        self.expect(")")
        return nodes.Call(name.text, args)

    def let(self):
        name = self.advance()
        if name.kind != t.NAME:
            self.fail("expected a name after 'let'", name)
        self.expect("=")
        value = self.expression(0)
        self.expect("in")
        return nodes.Let(name.text, value, self.expression(0))

    def conditional(self):
        test = self.expression(0)
        self.expect("then")
        then = self.expression(0)
        self.expect("else")
        return nodes.If(test, then, self.expression(0))


def parse(source):
    return Parser(source).program()
