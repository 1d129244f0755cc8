"""A web front for runs."""
