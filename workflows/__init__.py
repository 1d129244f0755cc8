"""The durable part: one workflow, its state, and what it decides."""
