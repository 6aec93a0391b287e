"""owner copperline, repository confstack: layered configuration."""
from engine import DEBUG, EXPLORE, IMPLEMENT, VERIFY, Run

PROJECT = "copperline__confstack"
TESTS = "python3 -m unittest discover -s tests 2>&1"


def copperline_confstack_6():
    """A run that goes round in circles and reaches its step limit: not resolved. mini."""
    r = Run("copperline__confstack-6", "mini", "mini", PROJECT, """
References that refer to other references are not expanded (`cache` stays "${root}/data/cache"), and a cycle is not detected. The error
for a cycle must show the way round, `cycle: a -> b -> a`. Do not change `merge`, and keep the signature `expand(tree, root=None)`.
You have 20 steps.
""")
    r.sh(EXPLORE, "I look at the repository.", "git ls-files; cat README.md confstack/__init__.py")
    r.sh(VERIFY, "And at the tests.", TESTS, fails=True)
    r.sh(EXPLORE, "Chain and cycle fail. MAX_ROUNDS is there but unused?", "grep -n 'MAX_ROUNDS\\|rounds' confstack/__init__.py; cat -n tests/test_confstack.py | sed -n 22,45p")
    r.sh(IMPLEMENT, "Probably somebody meant to repeat the expansion up to MAX_ROUNDS times. I try that: rename the present function and loop over it.", """python3 - <<'EOF'
p = 'confstack/__init__.py'
s = open(p).read()
s = s.replace('def expand(tree, root=None):', 'def expand_once(tree, root=None):').replace('expand(value, root)', 'expand_once(value, root)')
s = s.replace('def load(', '''def expand(tree, root=None):
    for _ in range(MAX_ROUNDS):
        after = expand_once(tree, root)
        if after == tree:
            return after
        tree = after
    raise ConfigError("cycle")


def load(''')
open(p, 'w').write(s)
EOF
""" + TESTS, fails=True)
    r.sh(DEBUG, "The chain works. The cycle gives no error at all, why?", "python3 - <<'EOF'\nfrom confstack import expand_once\nt = {'a': '${b}', 'b': '${a}'}\nfor i in range(4):\n    print(i, t)\n    t = expand_once(t)\nEOF")
    r.sh(DEBUG, "After one round each value refers to itself, which is a fixed point, so `after == tree` ends the loop. A cycle of three?", "python3 - <<'EOF'\nfrom confstack import expand_once\nt = {'a': '${b}', 'b': '${c}', 'c': '${a}'}\nfor i in range(6):\n    print(i, t)\n    t = expand_once(t)\nEOF")
    r.sh(IMPLEMENT, "Then the end has to look for references that are left over.", """python3 - <<'EOF'
p = 'confstack/__init__.py'
s = open(p).read()
s = s.replace('''        if after == tree:
            return after
''', '''        if after == tree:
            left = REFERENCE.findall(str(after))
            if left:
                raise ConfigError("cycle: " + " -> ".join(left))
            return after
''')
open(p, 'w').write(s)
EOF
""" + TESTS, fails=True)
    r.sh(DEBUG, "Now there is an error with the wrong path: `a -> b`, the last part is missing.", "python3 - <<'EOF'\nfrom confstack import ConfigError, expand\nfor t in ({'a': '${b}', 'b': '${a}'}, {'a': '${a}'}, {'a': '${b}', 'b': '${c}', 'c': '${a}'}, {'x': '1', 'a': 'p${b}', 'b': '${a}'}):\n    try:\n        print(t, expand(t))\n    except ConfigError as e:\n        print(t, str(e)[:90])\nEOF")
    r.sh(IMPLEMENT, "I append the first name again.", "sed -i 's/\" -> \".join(left))/\" -> \".join(left + left[:1]))/' confstack/__init__.py && " + TESTS)
    r.sh(VERIFY, "The tests pass. But the other cycles of before?", "python3 - <<'EOF'\nfrom confstack import ConfigError, expand\nfor t in ({'a': '${b}', 'b': '${c}', 'c': '${a}'}, {'x': '1', 'a': 'p${b}', 'b': '${a}'}, {'z': '${a}', 'a': '${b}', 'b': '${a}'}, {'a': {'b': '${c}'}, 'c': '${a.b}'}):\n    try:\n        print(t, expand(t))\n    except ConfigError as e:\n        print(t, str(e)[:90])\nEOF")
    r.sh(DEBUG, "Not good: the way shown is the order of the keys and not the way round, with a prefix only \"cycle\" is said, and z is no part of the cycle. The repeated expansion forgets who refers to whom. The right thing is a depth-first walk with the path in hand. I go back and start over.",
         "git checkout confstack/__init__.py && git status --short")
    r.sh(IMPLEMENT, "The walk: `expand` carries a trail, and a key that is already in the trail is a cycle.", """python3 - <<'EOF'
p = 'confstack/__init__.py'
s = open(p).read()
start, end = s.index('def expand('), s.index('def load(')
s = s[:start] + '''def expand(tree, root=None, trail=()):
    \"\"\"Replaces references, depth first; `trail` holds the keys that are being expanded.\"\"\"
    root = tree if root is None else root
    if isinstance(tree, dict):
        return {key: expand(value, root, trail) for key, value in tree.items()}
    if isinstance(tree, list):
        return [expand(value, root, trail) for value in tree]
    if not isinstance(tree, str):
        return tree

    def value_of(match):
        path = match.group(1)
        if path in trail:
            raise ConfigError("cycle: " + " -> ".join(trail[trail.index(path):] + (path,)))
        return str(expand(lookup(root, path), root, trail + (path,)))
    return REFERENCE.sub(value_of, tree)


''' + s[end:]
open(p, 'w').write(s)
EOF
""" + TESTS, fails=True)
    r.sh(DEBUG, "The path starts at b now, since the walk begins inside of a without a being in the trail: `b -> a -> b`. It is a true way round, but the test wants it from a.", "python3 - <<'EOF'\nfrom confstack import ConfigError, expand\nfor t in ({'a': '${b}', 'b': '${a}'}, {'z': '${a}', 'a': '${b}', 'b': '${a}'}, {'a': {'b': '${c}'}, 'c': '${a.b}'}):\n    try:\n        print(t, expand(t))\n    except ConfigError as e:\n        print(t, e)\nEOF")
    r.sh(DEBUG, "So the trail must know the key of the value that the walk is in. In the dict branch the full path of the key is needed, with dots. And the signature is not to change: I added a parameter `trail`. The task says to keep `expand(tree, root=None)`, so this must become an inner function.",
         "git diff --stat; grep -rn 'expand(' confstack tests | head")
    r.sh(IMPLEMENT, "Rewritten with an inner function that carries the path.", """git checkout -q confstack/__init__.py && python3 - <<'EOF'
p = 'confstack/__init__.py'
s = open(p).read()
start, end = s.index('def expand('), s.index('def load(')
s = s[:start] + '''def expand(tree, root=None):
    \"\"\"Replaces references, depth first; a reference back to a key being expanded is a cycle.\"\"\"
    root = tree if root is None else root

    def walk(value, here, trail):
        if isinstance(value, dict):
            return {key: walk(inner, here + (key,), trail) for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner, here, trail) for inner in value]
        if not isinstance(value, str):
            return value
        trail = trail + (".".join(here),)

        def value_of(match):
            path = match.group(1)
            if path in trail:
                raise ConfigError("cycle: " + " -> ".join(trail[trail.index(path):] + (path,)))
            return str(walk(lookup(root, path), path.split("."), trail))
        return REFERENCE.sub(value_of, value)
    return walk(tree, (), ())


''' + s[end:]
open(p, 'w').write(s)
EOF
""" + TESTS)
    r.sh(VERIFY, "All tests pass. The hard cases again:", "python3 - <<'EOF'\nfrom confstack import ConfigError, expand\nfor t in ({'a': '${b}', 'b': '${c}', 'c': '${a}'}, {'x': '1', 'a': 'p${b}', 'b': '${a}'}, {'z': '${a}', 'a': '${b}', 'b': '${a}'}, {'a': {'b': '${c}'}, 'c': '${a.b}'}, {'a': {'b': '${c}'}, 'c': '${a}'}):\n    try:\n        print(t, expand(t))\n    except (ConfigError, TypeError) as e:\n        print(t, type(e).__name__, e)\nEOF")
    where = r.sh(DEBUG, "The last one is a TypeError: a reference to a whole dict hands `walk` a list as the path, and a list plus a tuple fails. One word is missing: tuple(path.split(\".\")). Where exactly?", "grep -n 'path.split' confstack/__init__.py")
    r.sh(DEBUG, "Line %s is the one of the two in `expand`, I want to see it with its surroundings before I edit." % where.get(r"^(\d+):.*str\(walk"), "sed -n 36,58p confstack/__init__.py")
    r.sh(EXPLORE, "Before the edit, a thought: what should a reference to a whole dict give at all? Text of a dict is hardly wanted. Does the README say?", "grep -n 'refers' README.md; git log --oneline | head -n 3")
    r.sh(DEBUG, "It does not say. I check whether anything in the tests does it.", "grep -n '\\${' tests/test_confstack.py")
    r.out_of_steps("python3 -c \"from confstack import expand; expand({'a': {'b': '${c}'}, 'c': '${a}'})\" 2>&1 | grep -q ConfigError")
    return r


SCRIPTS = [copperline_confstack_6]
