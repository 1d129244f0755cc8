"""The workers of a task queue: what one is at its start, who else is there, what it tidies up."""
