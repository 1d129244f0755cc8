-- The tables of transactional_postgres.py and transactional_sqlite.py.
CREATE TABLE accounts (
    customer TEXT PRIMARY KEY,
    balance_cents INTEGER NOT NULL
);
-- One row for each call that was carried out. It may be deleted once no run that made it is open
-- or can still be reset, so keep it at least as long as Temporal keeps a closed run.
CREATE TABLE calls (
    key TEXT PRIMARY KEY,
    balance_cents INTEGER  -- what the call was told; NULL only inside its own transaction
);
INSERT INTO accounts VALUES ('ada', 0), ('grace', 0);
