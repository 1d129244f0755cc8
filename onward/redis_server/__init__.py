"""The Redis server that holds the ledger: how it is reached, and what it can promise."""
