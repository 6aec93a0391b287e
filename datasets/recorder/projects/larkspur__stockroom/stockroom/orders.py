"""Placing orders; see docs/POLICY.md, rule 5."""


class OutOfStock(Exception):
    pass


def place_order(db, customer, wanted):
    """`wanted` is a list of (sku, qty). Returns the order id; refused orders change nothing."""
    with db:
        order = db.execute("insert into orders (customer) values (?)", (customer,)).lastrowid
        for sku, qty in wanted:
            item = db.execute("select * from items where sku = ?", (sku,)).fetchone()
            if item is None:
                raise KeyError(sku)
            if item["stock"] - qty < item["reserve"]:
                raise OutOfStock(item["name"])
            db.execute("update items set stock = stock - ? where sku = ?", (qty, sku))
            db.execute("insert into lines values (?, ?, ?, ?)", (order, sku, qty, item["net_cents"]))
    return order
