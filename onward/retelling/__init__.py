"""`onward transcript`: the whole conversation of a run, from its history alone.

`steps` rebuilds it, `pieces` says who said what, one thing after another; `text` and `html` show
that to people, and `request` gives it as it was sent to Claude.
"""
