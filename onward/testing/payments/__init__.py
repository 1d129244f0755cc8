"""A payments service that tests kill workers against, and its books to audit them by.

It is a process of its own with its own SQLite file, so that what it says is no part of what is
tested. It keeps two tables apart: `requests`, every arrival, even one of which half came, and
`effects`, every refund that was made. There is an endpoint for each kind of help that an effect
class needs from the other side, and one that gives none; `service.py` lists them.
"""

from onward.testing.payments.process import Arrival, Effect, PaymentsProcess, payments_service

__all__ = ["Arrival", "Effect", "PaymentsProcess", "payments_service"]
