"""Steady runs for an hour while a worker is killed every minute; then: what is left behind.

`python -m chaos.soak --help` says how to use it.
"""
