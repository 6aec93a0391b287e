import sys

from .db import connect, load
from .invoices import invoice
from .orders import OutOfStock, place_order

PATH = "shop.db"


def main(argv):
    db = connect(PATH)
    if argv[0] == "load":
        table = "customers" if "customers" in argv[1] else "items"
        print("%d %s" % (load(db, argv[1], table), table))
    elif argv[0] == "order":
        wanted = [(part.split("=")[0], int(part.split("=")[1])) for part in argv[2:]]
        try:
            print("order", place_order(db, argv[1], wanted))
        except OutOfStock as error:
            print("refused: %s" % error)
            return 1
    elif argv[0] == "invoice":
        print(invoice(db, int(argv[1])), end="")
    elif argv[0] == "stock":
        for row in db.execute("select sku, name, stock, reserve from items order by sku"):
            print("%-6s %-16s %4d %4d" % tuple(row))
    return 0


sys.exit(main(sys.argv[1:]))
