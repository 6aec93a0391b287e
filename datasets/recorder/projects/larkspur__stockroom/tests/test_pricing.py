import unittest

from stockroom.money import percent, show
from stockroom.pricing import line_net, line_vat, shipping


class MoneyTest(unittest.TestCase):
    def test_half_up(self):
        self.assertEqual([percent(c, 25) for c in (1, 2, 6, 10)], [0, 1, 2, 3])

    def test_show(self):
        self.assertEqual([show(c) for c in (5, 1230, -405)], ["0.05", "12.30", "-4.05"])


class PricingTest(unittest.TestCase):
    def test_gold(self):
        self.assertEqual(line_net(31950, 2, "gold"), 59427)

    def test_no_discount_on_small_lines(self):
        self.assertEqual(line_net(4999, 1, "gold"), 4999)

    def test_discount_starts_at_50(self):
        self.assertEqual(line_net(2500, 2, "silver"), 4850)

    def test_vat_classes(self):
        self.assertEqual((line_vat(7435, "F"), line_vat(7435, "S")), (892, 1859))

    def test_shipping(self):
        self.assertEqual([shipping(n) for n in (59999, 60000)], [4900, 0])


if __name__ == "__main__":
    unittest.main()
