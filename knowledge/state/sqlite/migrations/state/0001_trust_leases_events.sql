-- Times are microseconds since the epoch.
CREATE TABLE enrolment (
    host TEXT PRIMARY KEY,
    secret_digest BLOB NOT NULL,
    created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX enrolment_digest ON enrolment (secret_digest);

CREATE TABLE standing (
    principal TEXT PRIMARY KEY,
    score REAL NOT NULL,
    floor REAL NOT NULL,
    ceiling REAL NOT NULL,
    frozen INTEGER NOT NULL,
    updated_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE standing_change (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    principal TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    score_before REAL NOT NULL,
    score_after REAL NOT NULL,
    reason TEXT NOT NULL,
    decided_by TEXT NOT NULL
) STRICT;
CREATE INDEX standing_change_principal ON standing_change (principal, id);

-- A released lease has no holder, and keeps its fence.
CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    holder TEXT,
    fence INTEGER NOT NULL,
    expires_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    key TEXT NOT NULL,
    at_s INTEGER NOT NULL DEFAULT (unixepoch())
) STRICT;
