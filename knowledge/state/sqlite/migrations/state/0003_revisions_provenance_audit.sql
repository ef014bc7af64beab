-- The bytes of pages, by the SHA-256 of all of them, compressed with zlib; `size` is that of the bytes.
CREATE TABLE content (
    digest BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    packed BLOB NOT NULL
) STRICT;

-- What each page has been, as far as we know it: from when, and when last. What is in its history is kept for good.
CREATE TABLE page_state (
    path TEXT NOT NULL,
    digest BLOB NOT NULL,
    since_us INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    in_history INTEGER NOT NULL,
    PRIMARY KEY (path, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX page_state_digest ON page_state (digest);
CREATE INDEX page_state_only_seen ON page_state (at_us) WHERE NOT in_history;

CREATE TABLE revision (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    revision TEXT,
    before TEXT,
    at_us INTEGER NOT NULL,
    how TEXT NOT NULL,
    principal TEXT NOT NULL,
    tool TEXT NOT NULL,
    source TEXT NOT NULL,
    confidence REAL,
    proposal TEXT,
    intent TEXT NOT NULL,
    lines_added INTEGER NOT NULL,
    lines_removed INTEGER NOT NULL,
    moved_from TEXT,
    seq INTEGER
) STRICT;
CREATE INDEX revision_path ON revision (path, id);
CREATE INDEX revision_move ON revision (path, id) WHERE moved_from IS NOT NULL;
CREATE INDEX revision_seq ON revision (seq) WHERE seq IS NOT NULL;

-- Acts that were begun, each as one blob, until they are committed or dropped.
CREATE TABLE intent (
    id TEXT PRIMARY KEY,
    at_us INTEGER NOT NULL,
    packed BLOB NOT NULL
) STRICT;

-- Where the units of a page came from, all of them as one blob.
CREATE TABLE origin (
    path TEXT PRIMARY KEY,
    revision TEXT NOT NULL,
    packed BLOB NOT NULL
) STRICT;

-- `same` is what two reports of one contradiction have in common.
CREATE TABLE contradiction (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us INTEGER NOT NULL,
    principal TEXT NOT NULL,
    existing_path TEXT NOT NULL,
    new_path TEXT NOT NULL,
    same BLOB NOT NULL,
    told TEXT NOT NULL,
    settled_us INTEGER
) STRICT;
CREATE UNIQUE INDEX contradiction_open ON contradiction (same) WHERE settled_us IS NULL;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    digest BLOB NOT NULL
) STRICT;

-- The newest record once more, so that a tail that was cut off is missed.
CREATE TABLE chain_end (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    seq INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;
INSERT INTO chain_end VALUES (1, 0, x'');
