"""Everything a run does outside its workflow: begin, ask Claude, run a tool, refill, end."""
