from .db import connect
from .orders import OutOfStock, place_order
from .invoices import invoice

__all__ = ["OutOfStock", "connect", "invoice", "place_order"]
