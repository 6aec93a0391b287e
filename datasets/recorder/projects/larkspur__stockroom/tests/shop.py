import os

from stockroom import connect
from stockroom.db import load

DATA = os.path.join(os.path.dirname(__file__), "..", "data")


def shop():
    db = connect()
    load(db, os.path.join(DATA, "items.json"), "items")
    load(db, os.path.join(DATA, "customers.json"), "customers")
    return db


def stock(db, sku):
    return db.execute("select stock from items where sku = ?", (sku,)).fetchone()["stock"]
