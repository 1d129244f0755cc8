"""Pausing an agent: while it is paused, no run of it begins a new effect."""
