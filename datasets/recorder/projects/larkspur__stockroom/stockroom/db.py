"""The tables, and loading the reference data."""
import json
import sqlite3

SCHEMA = """
create table if not exists items (sku text primary key, name text, net_cents integer, vat text, stock integer, reserve integer);
create table if not exists customers (id text primary key, name text, level text);
create table if not exists orders (id integer primary key, customer text references customers(id));
create table if not exists lines (order_id integer, sku text, qty integer, net_cents integer);
create table if not exists invoices (number text primary key, order_id integer unique);
"""


def connect(path=":memory:"):
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    db.executescript(SCHEMA)
    return db


def load(db, path, table):
    with open(path, encoding="utf-8") as handle:
        rows = json.load(handle)
    for row in rows:
        columns = ", ".join(row)
        marks = ", ".join("?" for _ in row)
        db.execute("insert or replace into %s (%s) values (%s)" % (table, columns, marks), list(row.values()))
    db.commit()
    return len(rows)
