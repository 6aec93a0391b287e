"""owner larkspur, repository stockroom: orders and invoices on sqlite3."""
from engine import DEBUG, DOCUMENT, EXPLORE, IMPLEMENT, REFACTOR, VERIFY, Run

PROJECT = "larkspur__stockroom"
TESTS = "python3 -m unittest discover -s tests -t ."


def larkspur_stockroom_8():
    """Wrong amounts, then a refund feature, then an export. chat, long."""
    r = Run("larkspur__stockroom-8", "plain", "chat", PROJECT,
            "Accounting complains: amounts on our invoices are off, orders eat into the reserve, and the invoice numbers started over at 1. "
            "docs/POLICY.md is binding; where the code disagrees, the code is wrong. Do not change the names in stockroom/__init__.py and do not touch data/*.json. "
            "Please fix it rule by rule, and give me the correct gross amount of an order of customer C-1007 for two A-300, one B-120 and three C-090 at the end.",
            plant=[
                ("stockroom/money.py", "return (cents * rate + 50) // 100", "return int(round(cents * rate / 100))"),
                ("stockroom/pricing.py", 'VAT = {"S": 25, "F": 12}', 'VAT = {"S": 25, "F": 15}'),
                ("stockroom/pricing.py", "if net >= DISCOUNT_FROM:", "if net > DISCOUNT_FROM:"),
                ("stockroom/pricing.py", "net_total >= FREE_FROM", "net_total > FREE_FROM"),
                ("stockroom/orders.py", 'if item["stock"] - qty < item["reserve"]:', 'if item["stock"] - qty < 0:'),
                ("stockroom/invoices.py", "FIRST = 481", "FIRST = 1"),
            ])
    p = r.read(EXPLORE, "The policy first.", "docs/POLICY.md")
    first, gold, free, ship = p.get(r"2024-(000481)"), p.get(r"level gold gets (\d) % off"), p.get(r"free from ([\d.]+) net"), p.get(r"Shipping is ([\d.]+) without VAT")
    food, start = p.get(r"(\d+) % for class F"), p.get(r"lines of at least ([\d.]+) net")
    r.sh(EXPLORE, "Then the code, all of it is short.", "git ls-files && wc -l stockroom/*.py && cat stockroom/money.py stockroom/pricing.py")
    d = r.sh(EXPLORE, "The data: items and customers.", "cat data/items.json data/customers.json")
    d.get(r'"C-1007", "name": "Ines Dahl", "level": "gold"')
    kettle = d.get(r'"A-300".*"net_cents": (\d+)')
    t = r.sh(VERIFY, "How do the tests stand?", TESTS + " 2>&1", fails=True)
    nf = t.get(r"FAILED \(failures=(\d+)")
    r.sh(DEBUG, "%s failures. I go by rules. Rule 1, rounding half up: `round` in Python rounds half to even, and goes through floating point." % nf,
         "python3 - <<'EOF'\nfrom stockroom.money import percent\nfor cents in (2, 6, 10, 14, 50, 150, 250):\n    print(cents, percent(cents, 25), 'half up:', (cents * 25 + 50) // 100)\nEOF")
    r.edit(IMPLEMENT, "Integers only, half up.", "stockroom/money.py", "return int(round(cents * rate / 100))", "return (cents * rate + 50) // 100")
    r.sh(VERIFY, "Rule 1:", "python3 -m unittest tests.test_pricing.MoneyTest -v 2>&1")
    r.edit(IMPLEMENT, "Rule 2: food has %s %%, the table says 15." % food, "stockroom/pricing.py", '"F": 15}', '"F": %s}' % food)
    r.edit(IMPLEMENT, "Rule 3: the discount applies to lines of at least %s, so the comparison must include it." % start, "stockroom/pricing.py", "if net > DISCOUNT_FROM:", "if net >= DISCOUNT_FROM:")
    r.edit(IMPLEMENT, "Rule 4: free from %s, which includes the amount itself." % free, "stockroom/pricing.py", "net_total > FREE_FROM", "net_total >= FREE_FROM")
    r.sh(VERIFY, "Rules 1 to 4 together.", "python3 -m unittest tests.test_pricing -v 2>&1")
    r.sh(VERIFY, "The border of the discount deserves a table: quantities 1 to 30 of each item for the three levels.", "python3 - <<'EOF'\nimport json\nfrom stockroom.pricing import line_net, line_vat\nprint('sku    qty     none   silver     gold  vat(gold)')\nfor item in json.load(open('data/items.json')):\n    for qty in range(1, 31):\n        nets = [line_net(item['net_cents'], qty, level) for level in ('none', 'silver', 'gold')]\n        print('%-6s %3d %8d %8d %8d %8d' % (item['sku'], qty, *nets, line_vat(nets[2], item['vat'])))\nEOF")
    r.read(DEBUG, "B-233 with one piece (49.99) gets no discount and C-090 gets it from two pieces on (59.90), as it should be. Rule 5, the reserve.", "stockroom/orders.py")
    r.edit(IMPLEMENT, "The comparison knows only zero.", "stockroom/orders.py", '["stock"] - qty < 0:', '["stock"] - qty < item["reserve"]:')
    r.sh(VERIFY, "The order tests.", "python3 -m unittest tests.test_orders -v 2>&1")
    r.sh(DEBUG, "\"Refused as a whole\": the block `with db` rolls back on an exception. Does that hold for an unknown item too, and for a negative quantity?",
         "python3 - <<'EOF'\nfrom tests.shop import shop, stock\nfrom stockroom import place_order\nfor wanted in ([('B-120', 2), ('Z-999', 1)], [('B-120', -5)], [('B-120', 0)]):\n    db = shop()\n    try:\n        place_order(db, 'C-1007', wanted)\n        result = 'accepted'\n    except Exception as e:\n        result = type(e).__name__\n    print(wanted, result, 'stock', stock(db, 'B-120'), 'orders', db.execute('select count(*) from orders').fetchone()[0])\nEOF")
    r.say("A finding before I go on: a quantity of -5 is accepted and raises the stock from 120 to 125, and 0 is accepted too. The policy says nothing about it. Shall I refuse quantities below 1, with ValueError?", DEBUG)
    r.user("Yes please, ValueError, with the SKU in the text. Good catch.")
    r.edit(IMPLEMENT, "Checked before anything is written.", "stockroom/orders.py", "        for sku, qty in wanted:\n", '        for sku, qty in wanted:\n            if qty < 1:\n                raise ValueError("%s: quantity must be at least 1, is %d" % (sku, qty))\n')
    r.sh(IMPLEMENT, "With a test.", """python3 - <<'EOF'
p = 'tests/test_orders.py'
s = open(p).read()
mark = '\\n\\nif __name__'
open(p, 'w').write(s.replace(mark, '''
    def test_quantity_below_one(self):
        db = shop()
        for qty in (0, -5):
            with self.assertRaisesRegex(ValueError, "B-120"):
                place_order(db, "C-1007", [("A-300", 1), ("B-120", qty)])
        self.assertEqual((stock(db, "A-300"), stock(db, "B-120")), (14, 120))
''' + mark))
EOF
python3 -m unittest tests.test_orders 2>&1""")
    r.read(DEBUG, "Rule 6, the numbers.", "stockroom/invoices.py")
    r.edit(IMPLEMENT, "The first number is %s." % first, "stockroom/invoices.py", "FIRST = 1\n", "FIRST = %d\n" % int(first))
    r.sh(VERIFY, "All tests.", TESTS + " 2>&1")
    r.sh(DEBUG, "Green. But what about a database in which invoices with low numbers exist already? `max` + 1 would go on with them.",
         "python3 - <<'EOF'\nfrom tests.shop import shop\nfrom stockroom import place_order, invoice\ndb = shop()\ndb.execute(\"insert into invoices values ('2024-000003', 77)\")\nprint(invoice(db, place_order(db, 'C-1031', [('C-090', 1)])).splitlines()[0])\nEOF")
    r.sh(IMPLEMENT, "As feared: 2024-000004. The next number must be at least FIRST in any case.",
         "python3 - <<'EOF'\np = 'stockroom/invoices.py'\ns = open(p).read()\nold = '''    n = FIRST if row[\"last\"] is None else int(row[\"last\"].split(\"-\")[1]) + 1\n'''\nassert s.count(old) == 1\n"
         "s = s.replace(old, '''    n = FIRST if row[\"last\"] is None else max(FIRST, int(row[\"last\"].split(\"-\")[1]) + 1)\n''')\nopen(p, 'w').write(s)\nEOF\npython3 - <<'EOF'\nfrom tests.shop import shop\nfrom stockroom import place_order, invoice\ndb = shop()\n"
         "db.execute(\"insert into invoices values ('2024-000003', 77)\")\nprint(invoice(db, place_order(db, 'C-1031', [('C-090', 1)])).splitlines()[0])\nEOF")
    r.sh(VERIFY, "Now the order you asked for, through the command line like a clerk would do it.", "rm -f shop.db; python3 -m stockroom load data/items.json; python3 -m stockroom load data/customers.json; python3 -m stockroom order C-1007 A-300=2 B-120=1 C-090=3; python3 -m stockroom invoice 1")
    g = r.sh(VERIFY, "I recompute it by hand with the prices from data/items.json and the %s %% of level gold, line by line." % gold,
             "python3 - <<'EOF'\nfrom fractions import Fraction as F\nimport math\nhalf_up = lambda x: math.floor(x + F(1, 2))\nnet = vat = 0\nfor unit, qty, rate in ((%s, 2, 25), (7435, 1, %s), (2995, 3, 25)):\n    line = unit * qty\n    if line >= 5000:\n        line -= half_up(F(line * %s, 100))\n    tax = half_up(F(line * rate, 100))\n    print(unit, qty, 'net', line, 'vat', tax)\n    net, vat = net + line, vat + tax\nprint('net', net, 'vat', vat, 'gross', net + vat + (0 if net >= 60000 else 4900))\nEOF" % (kettle, food, gold))
    gross = int(g.get(r"gross (\d+)"))
    r.say("Rules 1 to 6 hold again. The order of C-1007 comes to %d.%02d gross, no shipping because the net is above %s. Invoice numbers go on from 2024-%s even if the database holds low ones." % (gross // 100, gross % 100, free, first), VERIFY)
    r.user("Thank you! Next task: refunds. A refund takes back a whole order: the stock comes back and a credit note is written with the number of the invoice and a K in front (K2024-000481). An order can be refunded once. "
           "Put it into stockroom/refunds.py with a function refund(db, order_id). It is internal for now.")
    r.sh(EXPLORE, "Internal means: not in stockroom/__init__.py. I look at the tables once more, because the note has to be stored.", "cat stockroom/db.py stockroom/__init__.py")
    r.sh(IMPLEMENT, "A table of its own for the notes; the unique order id makes a second refund impossible.", "sed -i 's/^create table if not exists invoices (.*$/&\\ncreate table if not exists credit_notes (number text primary key, order_id integer unique);/' stockroom/db.py && git diff stockroom/db.py")
    r.sh(IMPLEMENT, "The module.", """cat > stockroom/refunds.py <<'EOF'
\"\"\"Taking back a whole order.\"\"\"
from .invoices import totals
from .money import show


class NoRefund(Exception):
    pass


def refund(db, order_id):
    \"\"\"Puts the stock back and returns the text of the credit note.\"\"\"
    with db:
        row = db.execute("select number from invoices where order_id = ?", (order_id,)).fetchone()
        if row is None:
            raise NoRefund("order %d has no invoice" % order_id)
        number = "K" + row["number"]
        if db.execute("select 1 from credit_notes where order_id = ?", (order_id,)).fetchone():
            raise NoRefund("order %d was refunded already" % order_id)
        db.execute("insert into credit_notes values (?, ?)", (number, order_id))
        for line in db.execute("select sku, qty from lines where order_id = ?", (order_id,)).fetchall():
            db.execute("update items set stock = stock + ? where sku = ?", (line["qty"], line["sku"]))
    return "Credit note %s\\ngross %s\\n" % (number, show(-totals(db, order_id)["gross"]))
EOF
python3 - <<'EOF'
from tests.shop import shop, stock
from stockroom import invoice, place_order
from stockroom.refunds import NoRefund, refund
db = shop()
order = place_order(db, 'C-1012', [('A-415', 2)])
for step in (refund, invoice, refund, refund):
    try:
        print(step.__name__, step(db, order).splitlines()[0], stock(db, 'A-415'))
    except NoRefund as e:
        print(step.__name__, 'NoRefund:', e, stock(db, 'A-415'))
EOF""")
    r.sh(IMPLEMENT, "It behaves. Tests in the style of the others.", """cat > tests/test_refunds.py <<'EOF'
import unittest

from stockroom import invoice, place_order
from stockroom.refunds import NoRefund, refund

from tests.shop import shop, stock


class RefundTest(unittest.TestCase):
    def setUp(self):
        self.db = shop()
        self.order = place_order(self.db, "C-1007", [("A-300", 2), ("B-120", 1), ("C-090", 3)])

    def test_needs_an_invoice(self):
        with self.assertRaisesRegex(NoRefund, "no invoice"):
            refund(self.db, self.order)

    def test_note_and_stock(self):
        invoice(self.db, self.order)
        self.assertEqual(refund(self.db, self.order), "Credit note K2024-%s\\ngross -%d.%02d\\n")
        self.assertEqual([stock(self.db, sku) for sku in ("A-300", "B-120", "C-090")], [14, 120, 200])

    def test_only_once(self):
        invoice(self.db, self.order)
        refund(self.db, self.order)
        with self.assertRaisesRegex(NoRefund, "already"):
            refund(self.db, self.order)
        self.assertEqual(stock(self.db, "A-300"), 14)


if __name__ == "__main__":
    unittest.main()
EOF
%s 2>&1""" % (first, gross // 100, gross % 100, TESTS))
    r.say("Refunds are in stockroom/refunds.py with tests; a second refund is refused, and the stock comes back exactly once. The public names are unchanged.", VERIFY)
    r.user("Two small things: add a command `refund ORDER` to the CLI, exit code 1 when refused like for orders, and put the rule into the policy as number 7.")
    r.read(EXPLORE, "How are refusals reported for orders?", "stockroom/__main__.py")
    r.edit(IMPLEMENT, "The same way for refunds.", "stockroom/__main__.py", '    elif argv[0] == "stock":\n', '    elif argv[0] == "refund":\n        try:\n            print(refund(db, int(argv[1])), end="")\n        except NoRefund as error:\n            print("refused: %s" % error)\n            return 1\n    elif argv[0] == "stock":\n')
    r.edit(IMPLEMENT, "And the import.", "stockroom/__main__.py", "from .orders import OutOfStock, place_order\n", "from .orders import OutOfStock, place_order\nfrom .refunds import NoRefund, refund\n")
    r.sh(VERIFY, "Try it on the shop.db of before, which has order 1 of C-1007.", "python3 -m stockroom refund 1; echo \"exit $?\"; python3 -m stockroom refund 1; echo \"exit $?\"; python3 -m stockroom stock")
    r.sh(DOCUMENT, "The stock is that of data/items.json again. Rule 7 for the policy:", "cat >> docs/POLICY.md <<'EOF'\n7. A refund takes back a whole order, once, and only if it has an invoice. The\n   credit note has the number of the invoice with a K in front.\nEOF\ntail -n 6 docs/POLICY.md; rm -f shop.db")
    r.edit(DOCUMENT, "The command also belongs into the README.", "README.md", "    python3 -m stockroom invoice 1\n", "    python3 -m stockroom invoice 1\n    python3 -m stockroom refund 1\n")
    r.sh(VERIFY, "Final run, and a check that data and public names are as they were.", TESTS + " -v 2>&1; git status --short; git diff --quiet -- data stockroom/__init__.py && echo 'data and public names untouched'")
    r.say("Done: `refund ORDER` exists, ends with 1 when refused, and rule 7 is in docs/POLICY.md. For reference: the order of C-1007 is %d.%02d gross, the first invoice 2024-%s, its credit note K2024-%s." % (gross // 100, gross % 100, first, first), VERIFY)
    r.finish("Submitted", TESTS)
    return r


def larkspur_stockroom_9():
    """A slow and noisy hunt for a float in the money code. chat, short."""
    r = Run("larkspur__stockroom-9", "plain", "chat", PROJECT,
            "The test test_same_item_twice fails on main: the same SKU twice in one order slips through. Find out why, fix it, and keep the rule that a refused order changes nothing. "
            "The error must name the first item, as docs/POLICY.md says. No schema changes.",
            plant=[("stockroom/orders.py", """        for sku, qty in wanted:
            item = db.execute("select * from items where sku = ?", (sku,)).fetchone()
            if item is None:
                raise KeyError(sku)
            if item["stock"] - qty < item["reserve"]:
                raise OutOfStock(item["name"])
            db.execute("update items set stock = stock - ? where sku = ?", (qty, sku))
            db.execute("insert into lines values (?, ?, ?, ?)", (order, sku, qty, item["net_cents"]))
""", """        items = {row["sku"]: row for row in db.execute("select * from items")}
        for sku, qty in wanted:
            item = items[sku]
            if item["stock"] - qty < item["reserve"]:
                raise OutOfStock(item["name"])
            db.execute("update items set stock = stock - ? where sku = ?", (qty, sku))
            db.execute("insert into lines values (?, ?, ?, ?)", (order, sku, qty, item["net_cents"]))
""")])
    r.sh(VERIFY, "First I see it fail.", TESTS + " 2>&1", fails=True)
    r.read(DEBUG, "The code of the order.", "stockroom/orders.py")
    r.sh(DEBUG, "All items are read once before the loop, so the second line of the same SKU sees the old stock. I print the stock line by line.",
         "python3 - <<'EOF'\nfrom tests.shop import shop, stock\nfrom stockroom import place_order\ndb = shop()\nprint('before', stock(db, 'A-415'))\nplace_order(db, 'C-1007', [('A-415', 5), ('A-415', 5)])\nprint('after', stock(db, 'A-415'))\nEOF")
    r.sh(EXPLORE, "Below zero even. What does the policy say exactly, and what are the reserves?", "sed -n '/^5/,/^6/p' docs/POLICY.md; grep -o '\"sku\": \"[A-Z0-9-]*\"\\|\"reserve\": [0-9]*' data/items.json | paste - -")
    r.sh(EXPLORE, "Was it different once, and who else reads items like that?", "git log --oneline; grep -n 'select \\* from items\\|items\\[' stockroom/*.py")
    r.edit(IMPLEMENT, "Reading each item inside of the loop sees the updates of earlier lines, and needs no bookkeeping. For an unknown SKU I keep the KeyError.", "stockroom/orders.py",
           '        items = {row["sku"]: row for row in db.execute("select * from items")}\n        for sku, qty in wanted:\n            item = items[sku]\n',
           '        for sku, qty in wanted:\n            item = db.execute("select * from items where sku = ?", (sku,)).fetchone()\n            if item is None:\n                raise KeyError(sku)\n')
    r.sh(VERIFY, "The order tests.", "python3 -m unittest tests.test_orders -v 2>&1")
    r.sh(VERIFY, "A refused order changes nothing: I try every pair of items, in a brute way, and compare the whole table before and after.",
         "python3 - <<'EOF'\nfrom itertools import product\nfrom tests.shop import shop\nfrom stockroom import OutOfStock, place_order\ndb = shop()\ndump = lambda: [tuple(r) for r in db.execute('select * from items order by sku')]\nskus = [r[0] for r in dump()]\nbefore = dump()\nfor a, b in product(skus, skus):\n    try:\n        place_order(db, 'C-1031', [(a, 1), (b, 500)])\n        print(a, b, 'ACCEPTED')\n    except OutOfStock as e:\n        print('%s %s refused: %-14s %s' % (a, b, e, 'same' if dump() == before else 'CHANGED'))\nprint('orders', db.execute('select count(*) from orders').fetchone()[0], 'lines', db.execute('select count(*) from lines').fetchone()[0])\nEOF")
    r.sh(VERIFY, "All 25 pairs are refused and nothing changed. The name is that of the item that is short, which for pairs is the second; is it the first one when both are short?",
         "python3 - <<'EOF'\nfrom tests.shop import shop\nfrom stockroom import OutOfStock, place_order\ntry:\n    place_order(shop(), 'C-1007', [('B-233', 500), ('A-300', 500)])\nexcept OutOfStock as e:\n    print(e)\nEOF")
    r.sh(VERIFY, "Honey is first in the order, so the rule holds. Does the time matter, with one query a line?", "python3 - <<'EOF'\nfrom tests.shop import shop\nfrom stockroom import place_order\ndb = shop()\nqueries = []\ndb.set_trace_callback(queries.append)\nplace_order(db, 'C-1007', [('C-090', 1)] * 10)\nprint(len(queries), 'statements for 10 lines')\nprint('\\n'.join(queries[:6]))\nEOF")
    r.sh(IMPLEMENT, "Three statements a line, by primary key: fine. One more test, for the border: exactly down to the reserve with two lines.", """python3 - <<'EOF'
p = 'tests/test_orders.py'
s = open(p).read()
mark = '\\n\\nif __name__'
open(p, 'w').write(s.replace(mark, '''
    def test_same_item_twice_down_to_the_reserve(self):
        db = shop()
        place_order(db, "C-1007", [("A-415", 5), ("A-415", 3)])
        self.assertEqual(stock(db, "A-415"), 1)
''' + mark))
EOF
python3 -m unittest tests.test_orders 2>&1""")
    r.sh(VERIFY, "All tests, and the schema is unchanged?", TESTS + " 2>&1; git diff --quiet -- stockroom/db.py && echo 'db.py unchanged'; git diff stockroom")
    r.say("The items were read once before the loop, so a second line with the same SKU saw the old stock (A-415 went to -1). They are now read inside the loop. "
          "A refused order still changes nothing, the error names the first item that is short, and there is a test for the border. No schema change.", VERIFY)
    r.user("Great. Is there any other place where stale rows could bite us, e.g. invoices while an order is being placed?")
    r.sh(EXPLORE, "I look at every query outside of orders.py.", "grep -n 'db.execute' stockroom/*.py | cut -c1-140")
    r.say("I see one: `invoice` reads the line price from `lines`, which is a copy made at the time of the order, so later price changes do no harm; but `totals` reads the VAT class from `items`. If a class changes, an old invoice printed again shows another VAT. "
          "That would need a VAT column in `lines`, a schema change, so I leave it to you.", EXPLORE)
    r.finish("Submitted", TESTS)
    return r


SCRIPTS = [larkspur_stockroom_8, larkspur_stockroom_9]
