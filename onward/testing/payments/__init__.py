"""A payments service that tests kill workers against, and its books to audit them by.

It is a process of its own with its own SQLite file, so that what it says is no part of what is
tested. It keeps two tables apart: `requests`, every arrival, even one of which half came, and
`effects`, every refund that was made. `POST /refunds` honours `Idempotency-Key`;
`POST /plain/refunds` makes a refund for every request.
"""

from onward.testing.payments.process import Arrival, Effect, PaymentsProcess, payments_service

__all__ = ["Arrival", "Effect", "PaymentsProcess", "payments_service"]
