"""One small tool for each effect class, to copy from; README.md says which."""
