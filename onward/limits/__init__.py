"""The limits of runs, for people. A run itself keeps to them: `workflows/budget.py`, `limits.py`.

`options` is what people type and `input` what that means, `use` says how much of each limit is
used, `command` is `onward limit`.
"""
