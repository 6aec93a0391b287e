"""owner minilang, repository parser: a small expression language."""
from engine import DEBUG, DOCUMENT, EXPLORE, IMPLEMENT, REFACTOR, VERIFY, Run

PROJECT = "minilang__parser"
TESTS = "python3 -m unittest discover -s tests"


def minilang_parser_3():
    """Three planted bugs; the house rules read at the start are needed at the end. mini, long."""
    r = Run("minilang__parser-3", "mini", "mini", PROJECT, """
Powers and error positions are wrong since the rewrite of the parser.

* `2 ^ 3 ^ 2` gives 64, it must give 512.
* `-3 ^ 2` gives 9, it must give -9.
* For examples/broken.ml the error message names a column that is one too high. Our editor plug-in jumps to the wrong
  place. On the first line of a file the column is right.

Please fix all three. Do not change the public API (the names in minilang/__init__.py), and do not edit the existing tests.
Follow CONTRIBUTING.md. Add one new test per fixed bug.
""", plant=[
        ("minilang/parser.py", "self.expression(power if op.text in t.RIGHT else power + 1)", "self.expression(power + 1)"),
        ("minilang/tokens.py", "UNARY_POWER = 40", "UNARY_POWER = 60"),
        ("minilang/lexer.py", "start_of_line = i + 1\n", "start_of_line = i\n"),
    ])
    r.sh(EXPLORE, "I'll start by looking at the layout of the repository.", "git ls-files && wc -l minilang/*.py tests/*.py")
    rules = r.sh(EXPLORE, "The task says to follow CONTRIBUTING.md, so I read that before anything else, together with the README.",
                 "cat CONTRIBUTING.md README.md")
    ticket_file = rules.get(r"taken from (\S+)\. Use")
    ticket = r.sh(EXPLORE, "Changes need a ticket number and an entry. Let me see which number is next and what entries look like.",
                  "cat %s && cat docs/CHANGES.rst" % ticket_file)
    first = int(ticket.get(r"^(\d{3})$"))
    fail = r.sh(DEBUG, "Now the state of the tests, before I touch anything.", TESTS + " 2>&1", fails=True)
    n_fail = fail.get(r"failures=(\d+)")
    fail.get(r"Ran (\d+) tests")
    r.sh(EXPLORE, "%s failures. I begin with the parser, since two of the three reports are about precedence." % n_fail, "cat -n minilang/parser.py")
    tok = r.sh(EXPLORE, "The loop uses a table of binding powers. Where does it come from?", "cat minilang/tokens.py")
    unary = tok.get(r"UNARY_POWER = (\d+)")
    power = tok.get(r'"\^": (\d+)')
    r.sh(DEBUG, "There is a set `RIGHT` with `^` in it. Is anything using it?", "grep -n 'RIGHT\\|UNARY_POWER' minilang/*.py")
    r.sh(DEBUG, "`RIGHT` is defined and never used: the parser recurses with `power + 1` for every operator, so `^` came out left "
         "associative. Let me print the trees to be sure before changing it.",
         "python3 - <<'EOF'\nfrom minilang import parse\nfor s in ('2^3^2', '7-3-2', '-2^2', '-2*3'):\n    print(s, '->', parse(s))\nEOF")
    r.sh(DEBUG, "The first tree is wrong, as reported. I trace the calls of the parser for that one, with the position and the binding power.", """python3 - <<'EOF'
import sys
from minilang import parser

def tracer(frame, event, arg):
    if not frame.f_code.co_filename.endswith(('parser.py', 'lexer.py')):
        return None
    local = {k: v for k, v in frame.f_locals.items() if k in ('least', 'power', 'ch', 'column')}
    if event in ('call', 'line', 'return'):
        pos = getattr(frame.f_locals.get('self'), 'pos', '-')
        print('%-7s %s:%d %s pos=%s %s' % (event, frame.f_code.co_filename.rsplit('/', 1)[1], frame.f_lineno, frame.f_code.co_name, pos, local or ''))
    return tracer

sys.settrace(tracer)
parser.parse('2^3^2')
EOF""")
    r.sh(IMPLEMENT, "That was far more than needed, but it shows `expression` called with least=51 for the right side, so the second `^` (50) is left to the outer loop. Confirmed: a right-associative operator must accept its own power on the right side.",
         "python3 - <<'EOF'\nimport re\np = 'minilang/parser.py'\ns = open(p).read()\n"
         "old = 'right = self.expression(power + 1)'\nassert s.count(old) == 1\n"
         "s = s.replace(old, 'right = self.expression(power if op.text in t.RIGHT else power + 1)')\nopen(p, 'w').write(s)\nEOF\ngit diff --stat")
    r.sh(VERIFY, "Does the power test pass now?", "python3 -m unittest tests.test_parser.ParserTest.test_power_is_right tests.test_interp.InterpTest.test_power_tower 2>&1")
    r.sh(DEBUG, "Next, the sign. Unary minus binds with %s and `^` with %s, so the operand of the minus ends before the `^`. "
         "The README says which of them is meant to be tighter; the table there lists `^` first." % (unary, power),
         "grep -n 'minus\\|Unary\\|-2\\^2\\|-3 ^' README.md tests/test_parser.py tests/test_interp.py minilang/parser.py")
    r.sh(EXPLORE, "The history might say whether %s was chosen on purpose." % unary, "git log --oneline -- minilang/tokens.py | head; git blame -s -L '/UNARY_POWER/,+1' minilang/tokens.py | cut -c1-8,9-70")
    new = int(power) - 10
    r.sh(IMPLEMENT, "No reason given. It has to lie between the product (30) and the power (%s), so that `-2*3` still negates only the 2; I take %d." % (power, new),
         "sed -i 's/^UNARY_POWER = %s$/UNARY_POWER = %d/' minilang/tokens.py && grep -n UNARY_POWER minilang/tokens.py" % (unary, new))
    r.sh(VERIFY, "All parser and interpreter tests together.", "python3 -m unittest tests.test_parser tests.test_interp -v 2>&1")
    r.subtask_end()
    r.sh(DEBUG, "Both precedence bugs are done. Now the column. I reproduce it with the file from the report and with a one-line program.",
         "python3 -m minilang -f examples/broken.ml; python3 -m minilang '(1 + 2'; cat -A examples/broken.ml", fails=False)
    r.sh(EXPLORE, "On one line it is right (1:7), in the file it is off by one. Positions are made in the lexer.", "cat -n minilang/lexer.py")
    r.sh(DEBUG, "I print line and column of each token after a newline, next to the character that really stands there.",
         "python3 - <<'EOF'\nfrom minilang.lexer import tokenize\nsource = open('examples/broken.ml').read()\nlines = source.split('\\n')\n"
         "for k in tokenize(source):\n    text = lines[k.line - 1][k.column - 1:k.column - 1 + len(k.text)] if k.line <= len(lines) else ''\n"
         "    print('%-8s %d:%-3d %-8r %s' % (k.kind, k.line, k.column, k.text, 'ok' if text == k.text else 'WRONG, there is %r' % text))\nEOF")
    r.sh(DEBUG, "Every token after the first line is one column too far right. `start_of_line` is set to the index of the newline itself instead of the "
         "character behind it. Are there other places that keep a line start?", "grep -n 'start_of_line\\|column' minilang/*.py")
    r.sh(IMPLEMENT, "Only the lexer. House rule: positions count from 1, for columns too, and `column = i - start_of_line + 1` gives that once the start is right.",
         "sed -i 's/^            start_of_line = i$/            start_of_line = i + 1/' minilang/lexer.py && git diff minilang/lexer.py")
    r.sh(VERIFY, "Check with the same two programs.", "python3 -m minilang -f examples/broken.ml; python3 -m minilang '(1 + 2'; python3 -m minilang -f examples/area.ml")
    ok = r.sh(VERIFY, "And the whole suite.", TESTS + " 2>&1")
    ok.get(r"^OK")
    r.subtask_end()
    r.sh(EXPLORE, "All green. Now one new test per bug; first how the test files end and what is imported there.",
         "tail -n 12 tests/test_parser.py; head -n 8 tests/test_parser.py; tail -n 10 tests/test_lexer.py")
    r.sh(IMPLEMENT, "I add new test methods and leave the existing ones alone.", """python3 - <<'EOF'
def add(path, code):
    s = open(path).read()
    mark = '\\n\\nif __name__ == "__main__":'
    assert s.count(mark) == 1
    open(path, 'w').write(s.replace(mark, code + mark))

add('tests/test_parser.py', '''
    def test_power_after_product_is_right(self):
        self.assertEqual(parse("5*2^3^2"), Binary("*", Number(5), parse("2^3^2")))
        self.assertEqual(parse("2^3^2").right, Binary("^", Number(3), Number(2)))

    def test_minus_binds_tighter_than_product(self):
        self.assertEqual(parse("-2*3^2"), Binary("*", Unary("-", Number(2)), Binary("^", Number(3), Number(2))))
''')
add('tests/test_lexer.py', '''
    def test_columns_count_from_one_on_every_line(self):
        tokens = tokenize("a\\\\nb\\\\n\\\\n c")
        self.assertEqual([(x.line, x.column) for x in tokens[:3]], [(1, 1), (2, 1), (4, 2)])
''')
EOF
git diff --stat""")
    bad = r.sh(VERIFY, "Run the two files.", "python3 -m unittest tests.test_parser tests.test_lexer 2>&1")
    bad.get(r"OK")
    r.sh(VERIFY, "A new test is worth something only if it fails without the fix. I stash the sources and keep the tests.",
         "git stash push -q minilang && python3 -m unittest tests.test_parser tests.test_lexer 2>&1 | grep -E '^(FAIL|ERROR|Ran|FAILED|OK)'; git stash pop -q && git status --short")
    r.sh(IMPLEMENT, "Only two of my three fail without the fix: `test_minus_binds_tighter_than_product` passes either way, because in `-2*3^2` the minus never meets the `^`. "
         "With `-2^2*3` it does.", "sed -i 's/parse(\"-2\\*3^2\"), Binary(\"\\*\", Unary(\"-\", Number(2)), Binary(\"^\", Number(3), Number(2))))/parse(\"-2^2*3\"), Binary(\"*\", Unary(\"-\", Binary(\"^\", Number(2), Number(2))), Number(3)))/' tests/test_parser.py && git diff tests/test_parser.py")
    r.sh(VERIFY, "The same trial again.",
         "git stash push -q minilang && python3 -m unittest tests.test_parser tests.test_lexer 2>&1 | grep -E '^(FAIL|ERROR|Ran|FAILED|OK)'; git stash pop -q && python3 -m unittest tests.test_parser tests.test_lexer 2>&1 | tail -n 1").get("FAIL: test_minus_binds_tighter")
    r.sh(VERIFY, "Now each of the three fails without the fix and passes with it. Is anything else sensitive to the binding powers, for instance a comparison after a minus?",
         "for e in '-1 < 0' '2 ^ -1' '-2 ^ -2' '--3' '1 - -1' 'if -1 < 0 then -1 ^ 2 else 7'; do printf '%-32s ' \"$e\"; python3 -m minilang \"$e\" 2>&1; done")
    r.subtask_end()
    r.sh(DOCUMENT, "All as expected. Now the paperwork from the contributing rules: entries under \"Unreleased\" with ticket numbers from %d on, one for each bug." % first,
         """python3 - <<'EOF'
p = 'docs/CHANGES.rst'
s = open(p).read()
head = 'Unreleased\\n----------\\n'
assert s.count(head) == 1
entries = '''
* ML-%d: ``^`` groups from the right again.
* ML-%d: unary minus binds less tightly than ``^``.
* ML-%d: columns in error messages are right after the first line.
'''
open(p, 'w').write(s.replace(head, head + entries))
EOF
sed -n 1,16p docs/CHANGES.rst""" % (first, first + 1, first + 2))
    r.sh(DOCUMENT, "Three numbers are used up, so docs/NEXT_TICKET goes to %d." % (first + 3), "echo %d > docs/NEXT_TICKET && git diff docs" % (first + 3))
    r.sh(DOCUMENT, "In the README the row for unary minus says only \"prefix\". Its order in the table is right, but a sentence about `-3 ^ 2` would have avoided this bug.",
         "python3 - <<'EOF'\np = 'README.md'\ns = open(p).read()\nold = '| `==` `<` `>` | comparison | left |\\n'\nassert s.count(old) == 1\n"
         "open(p, 'w').write(s.replace(old, old + '\\nUnary minus binds less tightly than `^`: `-3 ^ 2` is -9. `2 ^ 3 ^ 2` is 512.\\n'))\nEOF\npython3 -m minilang '-3 ^ 2'; python3 -m minilang '2 ^ 3 ^ 2'")
    r.subtask_end()
    r.sh(VERIFY, "The rules ask for Python 3.8. Nothing I used is newer, but a parse with that feature version costs nothing.",
         "python3 - <<'EOF'\nimport ast, glob\nfor f in sorted(glob.glob('minilang/*.py') + glob.glob('tests/*.py')):\n    ast.parse(open(f).read(), f, feature_version=(3, 8))\n    print('3.8 ok', f)\nEOF")
    r.sh(VERIFY, "The public names must be what they were.", "git diff --quiet HEAD -- minilang/__init__.py && echo 'minilang/__init__.py unchanged'; python3 -c 'import minilang; print(minilang.__all__, minilang.__version__)'")
    r.sh(VERIFY, "Last full run before handing in.", TESTS + " -v 2>&1 | tail -n 34")
    r.sh(VERIFY, "Everything passes. Which files did I touch?", "git status --short")
    r.sh(VERIFY, "All of them on purpose. I make the patch.",
         "git diff -- minilang/parser.py minilang/tokens.py minilang/lexer.py tests/test_parser.py tests/test_lexer.py docs/CHANGES.rst docs/NEXT_TICKET README.md > patch.txt && wc -l patch.txt")
    r.sh(VERIFY, "A look at it.", "cat patch.txt")
    r.submit("The patch holds the three fixes in the parser, tokens.py and the lexer, the new tests, ML-%d to ML-%d and the README. I hand it in." % (first, first + 2), TESTS)
    return r


def minilang_parser_7():
    """A small feature under constraints. annotated, with the file tools."""
    r = Run("minilang__parser-7", "plain", "annotated", PROJECT,
            "[[goal|Add a remainder operator `%` to minilang, with the same precedence as `*` and `/`.]] "
            "[[constraint:C1:semantics|The result takes the sign of the divisor, as in Python]], and [[constraint:C2:semantics|a remainder by zero must raise EvalError, never ZeroDivisionError]]. "
            "[[constraint:C3:api|Do not change the public API]], and [[constraint:C4:scope|leave the lexer alone, it should need no change]]. Read CONTRIBUTING.md first, please.")
    rules = r.act(EXPLORE, "I read the rules and the two files that know about operators.", [
        ("bash", {"command": "cat CONTRIBUTING.md docs/NEXT_TICKET"}),
        ("read_file", {"path": "minilang/tokens.py"}),
        ("read_file", {"path": "minilang/interp.py", "start": 50, "end": 85})])
    ticket = rules[0].get(r"^(\d{3})$", "fact")
    rules[0].get(r"3\. Positions in error messages count from 1", None)
    rules[0].get(r'in the form ``\* ML-<number>: <sentence>\.``', "constraint")
    rules[0].get(r"4\. Code runs on Python 3\.8: no match statement", "constraint")
    rules[1].get(r'"\*": (\d+),', "fact")
    power = rules[1].get(r'"/": (\d+),', "fact")
    msg = rules[2].get(r'raise EvalError\("(division by zero)"\)', "fact")
    lex = r.sh(EXPLORE, "The claim is that the lexer needs no change. I check how it finds its symbols.", "grep -n 'SYMBOLS\\|POWER' minilang/lexer.py minilang/parser.py")
    lex.get(r"SYMBOLS = sorted\(set\(t\.POWER\).*$", "tool_output")
    r.sh(VERIFY, "It builds the symbols from `t.POWER`, so an entry in that table is enough. State before the change:", TESTS + " 2>&1 | tail -n 3; python3 -m minilang '7 % 3'", fails=True)
    r.edit(IMPLEMENT, "[[decision|I put `%%` into the table with binding power %s, like `/`.]]" % power, "minilang/tokens.py", '    "/": %s,\n' % power, '    "/": %s,\n    "%%": %s,\n' % (power, power))
    r.edit(IMPLEMENT, "Now the evaluation, with its own message in the style of %r." % msg, "minilang/interp.py",
           '            return left / right\n', '            return left / right\n        if op == "%":\n            if right == 0:\n                raise EvalError("remainder by zero")\n            return left % right\n')
    r.sh(VERIFY, "Signs, zero, floats and precedence by hand.",
         "for e in '7 % 3' '-7 % 3' '7 % -3' '5.5 % 2' '2 + 7 % 4 * 2' '2 ^ 5 % 5' '1 % 0' '1 % 0.0'; do printf '%-16s ' \"$e\"; python3 -m minilang \"$e\" 2>&1; done", fails=True)
    r.subtask_end()
    r.read(EXPLORE, "All as asked: `-7 % 3` is read as `(-7) % 3` since the unary minus binds tighter. Where do the interpreter tests end?", "tests/test_interp.py", 30, 45)
    r.edit(IMPLEMENT, "I add tests for the sign, the zero and the precedence.", "tests/test_interp.py",
           '        self.assertEqual(evaluate("max(abs(-4), 3)"), 4)\n', '''        self.assertEqual(evaluate("max(abs(-4), 3)"), 4)

    def test_remainder_takes_the_sign_of_the_divisor(self):
        self.assertEqual([evaluate(e) for e in ("7 % 3", "-7 % 3", "7 % -3")], [1, 2, -2])

    def test_remainder_by_zero(self):
        for source in ("1 % 0", "1 % 0.0"):
            with self.assertRaises(EvalError):
                evaluate(source)

    def test_remainder_binds_like_product(self):
        self.assertEqual(evaluate("2 + 7 % 4 * 2"), 8)
''')
    r.sh(VERIFY, "Run the tests.", TESTS + " 2>&1 | tail -n 4").get(r"OK", "tool_output")
    r.sh(EXPLORE, "Green. Before the documentation: does anything else list the operators, like the README or the examples?", "grep -n -F '`*` `/`' README.md docs/*; cat examples/area.ml")
    r.edit(DOCUMENT, "The README has a table of operators.", "README.md", "| `*` `/` | product, quotient | left |", "| `*` `/` `%` | product, quotient, remainder | left |")
    r.edit(DOCUMENT, "And the entry in the list of changes. The next free number was %s." % ticket, "docs/CHANGES.rst", "Unreleased\n----------\n",
           "Unreleased\n----------\n\n* ML-%s: ``%%`` gives the remainder, with the sign of the divisor.\n" % ticket)
    r.sh(DOCUMENT, "The number is used, so it goes up by one.", "echo %d > docs/NEXT_TICKET; git diff docs README.md" % (int(ticket) + 1))
    r.subtask_end()
    r.user("One more thing: the error for a remainder by zero should name the column of the operator... no wait, forget that, EvalError has no position. Keep it simple. "
           "[[goal|But let the CLI show the version with `--version`, exit code 0.]]")
    cli = r.read(EXPLORE, "Then I leave the error as it is and only add `--version`. The command line first.", "minilang/cli.py")
    cli.get(r"EXIT_USAGE = \d+", "fact")
    r.edit(IMPLEMENT, "The version lives in the package; importing it inside the function avoids a circular import.", "minilang/cli.py",
           '    if argv[0] == "-f":\n', '    if argv[0] == "--version":\n        from . import __version__\n        print("minilang %s" % __version__)\n        return 0\n    if argv[0] == "-f":\n')
    r.edit(IMPLEMENT, "A test for it beside the other command line tests.", "tests/test_cli.py", "    def test_usage(self):\n",
           '    def test_version(self):\n        self.assertEqual(call("--version"), (0, "minilang 0.9.3\\n", ""))\n\n    def test_usage(self):\n')
    r.sh(VERIFY, "Full run, and the command itself.", TESTS + " 2>&1 | tail -n 4; python3 -m minilang --version")
    r.edit(DOCUMENT, "This is a change of behaviour too, so by the rules it needs its own entry: ML-%d." % (int(ticket) + 1), "docs/CHANGES.rst",
           "with the sign of the divisor.\n", "with the sign of the divisor.\n* ML-%d: ``--version`` prints the version.\n" % (int(ticket) + 1))
    r.sh(DOCUMENT, "And the counter once more.", "echo %d > docs/NEXT_TICKET; sed -n 4,10p docs/CHANGES.rst" % (int(ticket) + 2))
    r.superseded("docs/NEXT_TICKET", int(ticket) + 1, int(ticket) + 2)
    r.sh(VERIFY, "Finally: the lexer and the public names are untouched?", "git diff --stat; git diff --quiet -- minilang/lexer.py minilang/__init__.py && echo untouched")
    r.subtask_end()
    r.say("Done. `%%` has the binding power of `*` and `/` (%s), takes the sign of the divisor, and raises EvalError(\"remainder by zero\"). `--version` prints `minilang 0.9.3`. "
          "minilang/lexer.py and the public API are as they were; tests and README are updated, with entries ML-%s and ML-%d." % (power, ticket, int(ticket) + 1), VERIFY)
    r.probe("goal", "Which operator was the agent asked to add first?", "a remainder operator `%`", "an integer quotient `//`", "a logical not `!`")
    r.probe("constraint", "Which file was the agent told to leave alone?", "minilang/lexer.py", "minilang/interp.py", "README.md")
    r.probe("artifact", "Which number stands in docs/NEXT_TICKET at the end?", str(int(ticket) + 2), ticket, str(int(ticket) + 1))
    r.finish("Submitted", TESTS)
    return r


SCRIPTS = [minilang_parser_3, minilang_parser_7]
