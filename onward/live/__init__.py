"""A run as it happens: what Claude writes, its calls, their results, what it costs.

Two sources are told as one story. What lasts comes from Temporal's history, so it is shown once and
no crash or loss of Redis can take it back. The reply that Claude is writing right now comes from a
capped, expiring Redis Stream: it is there to be seen, and nothing depends on it.
"""
