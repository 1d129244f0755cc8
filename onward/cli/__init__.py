"""How the commands of `onward` are typed: options, help, examples.

What a command does is in `onward/commands.py` and its neighbours, which are imported when it runs:
so help and a mistyped option answer at once.
"""
