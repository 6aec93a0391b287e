"""Layered configuration."""
import json
import re

REFERENCE = re.compile(r"\$\{([\w.]+)\}")
MAX_ROUNDS = 8


class ConfigError(Exception):
    pass


def merge(base, layer):
    """`layer` over `base`; dicts merge, `+key` extends a list, other values replace."""
    out = dict(base)
    for key, value in layer.items():
        if key.startswith("+"):
            out[key[1:]] = list(out.get(key[1:], [])) + list(value)
        elif isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def lookup(tree, path):
    for part in path.split("."):
        if not isinstance(tree, dict) or part not in tree:
            raise ConfigError("no such key: %s" % path)
        tree = tree[part]
    return tree


def expand(tree, root=None):
    """Replaces references; several rounds, because a value may refer to one that refers on."""
    root = tree if root is None else root
    if isinstance(tree, dict):
        return {key: expand(value, root) for key, value in tree.items()}
    if isinstance(tree, list):
        return [expand(value, root) for value in tree]
    if isinstance(tree, str):
        return REFERENCE.sub(lambda m: str(lookup(root, m.group(1))), tree)
    return tree


def load(*paths):
    tree = {}
    for path in paths:
        with open(path, encoding="utf-8") as handle:
            tree = merge(tree, json.load(handle))
    return expand(tree)
