"""Many runs while everything around them is killed, paused, wiped and cut; then one audit.

`python chaos/run.py --help` says how to use it.
"""
