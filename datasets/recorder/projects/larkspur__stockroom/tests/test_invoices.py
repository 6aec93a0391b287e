import unittest

from stockroom import invoice, place_order
from stockroom.invoices import totals

from tests.shop import shop


class InvoiceTest(unittest.TestCase):
    def test_totals(self):
        db = shop()
        order = place_order(db, "C-1007", [("A-300", 2), ("B-120", 1)])
        t = totals(db, order)
        self.assertEqual((t["net"], t["vat"], t["shipping"], t["gross"]), (66342, 15687, 0, 82029))

    def test_numbers(self):
        db = shop()
        for n in (481, 482):
            order = place_order(db, "C-1031", [("C-090", 1)])
            self.assertTrue(invoice(db, order).startswith("Invoice 2024-000%d\n" % n))

    def test_asking_again(self):
        db = shop()
        order = place_order(db, "C-1031", [("C-090", 1)])
        self.assertEqual(invoice(db, order), invoice(db, order))

    def test_shipping_is_shown(self):
        db = shop()
        text = invoice(db, place_order(db, "C-1012", [("B-233", 1)]))
        self.assertIn("shipping                         49.00", text)
        self.assertIn("gross                           104.99", text)


if __name__ == "__main__":
    unittest.main()
