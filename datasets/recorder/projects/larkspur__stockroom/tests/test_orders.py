import unittest

from stockroom import OutOfStock, place_order

from tests.shop import shop, stock


class OrderTest(unittest.TestCase):
    def test_stock_falls(self):
        db = shop()
        place_order(db, "C-1007", [("A-300", 2)])
        self.assertEqual(stock(db, "A-300"), 12)

    def test_reserve_is_kept(self):
        db = shop()
        place_order(db, "C-1007", [("A-300", 12)])
        with self.assertRaisesRegex(OutOfStock, "Kettle"):
            place_order(db, "C-1012", [("A-300", 1)])

    def test_refused_order_changes_nothing(self):
        db = shop()
        with self.assertRaises(OutOfStock):
            place_order(db, "C-1007", [("B-120", 5), ("A-415", 9)])
        self.assertEqual(stock(db, "B-120"), 120)
        self.assertEqual(db.execute("select count(*) from orders").fetchone()[0], 0)

    def test_same_item_twice(self):
        db = shop()
        with self.assertRaises(OutOfStock):
            place_order(db, "C-1007", [("A-415", 5), ("A-415", 5)])


if __name__ == "__main__":
    unittest.main()
