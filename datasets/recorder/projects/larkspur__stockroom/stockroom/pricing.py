"""Discounts, VAT and shipping; see docs/POLICY.md, rules 2 to 4."""
from .money import percent

VAT = {"S": 25, "F": 12}
DISCOUNT = {"gold": 7, "silver": 3}
DISCOUNT_FROM = 5000
SHIPPING = 4900
FREE_FROM = 60000


def line_net(unit_cents, qty, level):
    net = unit_cents * qty
    if net >= DISCOUNT_FROM:
        net -= percent(net, DISCOUNT.get(level, 0))
    return net


def line_vat(net, vat_class):
    return percent(net, VAT[vat_class])


def shipping(net_total):
    return 0 if net_total >= FREE_FROM else SHIPPING
