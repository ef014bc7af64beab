-- Bearer tokens of people and programs on other machines. Only the hash of a token is kept. `toolsets` is a JSON list, or null for all.
CREATE TABLE token (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    secret_digest BLOB NOT NULL,
    ceiling INTEGER NOT NULL,
    toolsets TEXT,
    created_by TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER,
    revoked_us INTEGER
) STRICT, WITHOUT ROWID;
