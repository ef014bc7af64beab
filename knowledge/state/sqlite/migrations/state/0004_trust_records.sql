-- What waits, or waited, for a person. `told` is what never changes of it, as JSON, in which the first columns are once more. It
-- comes last, with the other long texts: what lies behind them takes reading them.
CREATE TABLE proposal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    principal TEXT NOT NULL,
    hash TEXT NOT NULL,
    expires_us INTEGER NOT NULL,
    state TEXT NOT NULL,
    ended_us INTEGER,
    successor TEXT,
    runner TEXT NOT NULL,
    runs_until_us INTEGER,
    verdict TEXT,
    error TEXT,
    result TEXT,
    told TEXT NOT NULL
) STRICT;
CREATE INDEX proposal_principal ON proposal (principal, number);
CREATE INDEX proposal_state ON proposal (state, number);
CREATE INDEX proposal_pending ON proposal (principal, kind, expires_us, id) WHERE state = 'pending';
CREATE INDEX proposal_unfinished ON proposal (runs_until_us)
WHERE (state = 'approved' OR (state = 'executed' AND result IS NULL));

CREATE TABLE passkey (
    id BLOB PRIMARY KEY,
    public_key BLOB NOT NULL,
    sign_count INTEGER NOT NULL,
    name TEXT NOT NULL,
    user TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    used_us INTEGER
) STRICT;

-- Only digests of secrets are kept, and what each stands for.
CREATE TABLE secret (
    digest BLOB NOT NULL,
    purpose TEXT NOT NULL,
    value TEXT NOT NULL,
    expires_us INTEGER NOT NULL,
    PRIMARY KEY (digest, purpose)
) STRICT;
CREATE INDEX secret_expires ON secret (expires_us);

-- From where each caller has read text that nobody vouches for, newest time only; `journey` is '' outside of one.
CREATE TABLE taint (
    principal TEXT NOT NULL,
    journey TEXT NOT NULL,
    origin TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (principal, journey, origin)
) STRICT, WITHOUT ROWID;
CREATE INDEX taint_at ON taint (at_us);
