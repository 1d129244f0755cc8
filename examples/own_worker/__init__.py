"""Agents beside a team's own Temporal workflows, in its own worker."""
