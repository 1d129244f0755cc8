"""What people say to runs as they go: messages, decisions, pause, cancel."""
