"""Invoices; see docs/POLICY.md, rule 6."""
from .money import show
from .pricing import line_net, line_vat, shipping

YEAR = 2024
FIRST = 481


def next_number(db):
    row = db.execute("select max(number) as last from invoices").fetchone()
    n = FIRST if row["last"] is None else int(row["last"].split("-")[1]) + 1
    return "%d-%06d" % (YEAR, n)


def totals(db, order_id):
    level = db.execute("select level from customers join orders on customers.id = customer where orders.id = ?", (order_id,)).fetchone()["level"]
    lines, net, vat = [], 0, 0
    for row in db.execute("select lines.sku, name, qty, lines.net_cents as unit, vat from lines join items using (sku) where order_id = ?", (order_id,)):
        line = line_net(row["unit"], row["qty"], level)
        lines.append((row["sku"], row["name"], row["qty"], line))
        net += line
        vat += line_vat(line, row["vat"])
    post = shipping(net)
    return {"lines": lines, "net": net, "vat": vat, "shipping": post, "gross": net + vat + post}


def invoice(db, order_id):
    """The text of the invoice; asking again gives the same number."""
    with db:
        row = db.execute("select number from invoices where order_id = ?", (order_id,)).fetchone()
        number = row["number"] if row else next_number(db)
        if not row:
            db.execute("insert into invoices values (?, ?)", (number, order_id))
    t = totals(db, order_id)
    out = ["Invoice %s" % number]
    for sku, name, qty, line in t["lines"]:
        out.append("%-6s %-16s %3d %10s" % (sku, name, qty, show(line)))
    for label in ("net", "vat", "shipping", "gross"):
        out.append("%-27s %10s" % (label, show(t[label])))
    return "\n".join(out) + "\n"
