"""Evaluates a tree."""
from . import nodes
from .errors import EvalError
from .parser import parse

MAX_DEPTH = 200
BUILTINS = {
    "abs": (abs, 1),
    "max": (max, 2),
    "min": (min, 2),
    "round": (round, 1),
}


class Interpreter:
    def __init__(self, names=None):
        self.globals = dict(names or {})

    def run(self, source):
        return self.eval(parse(source), self.globals, 0)

    def eval(self, node, env, depth):
        if depth > MAX_DEPTH:
            raise EvalError("nesting deeper than %d" % MAX_DEPTH)
        depth += 1
        if isinstance(node, nodes.Number):
            return node.value
        if isinstance(node, nodes.Name):
            if node.id not in env:
                raise EvalError("unknown name %r" % node.id)
            return env[node.id]
        if isinstance(node, nodes.Unary):
            return -self.eval(node.operand, env, depth)
        if isinstance(node, nodes.Binary):
            left = self.eval(node.left, env, depth)
            right = self.eval(node.right, env, depth)
            return self.binary(node.op, left, right)
        if isinstance(node, nodes.Let):
            inner = dict(env)
            inner[node.name] = self.eval(node.value, env, depth)
            return self.eval(node.body, inner, depth)
        if isinstance(node, nodes.If):
            chosen = node.then if self.eval(node.test, env, depth) else node.other
            return self.eval(chosen, env, depth)
        return self.call(node, env, depth)

    def binary(self, op, left, right):
        if op == "+":
            return left + right
        if op == "-":
            return left - right
        if op == "*":
            return left * right
        if op == "/":
            if right == 0:
                raise EvalError("division by zero")
            return left / right
        if op == "^":
            return left ** right
        if op == "==":
            return int(left == right)
        if op == "<":
            return int(left < right)
        if op == ">":
            return int(left > right)
        raise EvalError("unknown operator %r" % op)

    def call(self, node, env, depth):
        if node.name not in BUILTINS:
            raise EvalError("unknown function %r" % node.name)
        function, arity = BUILTINS[node.name]
        if len(node.args) != arity:
            raise EvalError("%s takes %d argument(s), got %d" % (node.name, arity, len(node.args)))
        return function(*[self.eval(arg, env, depth) for arg in node.args])


def evaluate(source, **names):
    return Interpreter(names).run(source)
