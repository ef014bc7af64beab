-- What was done in other services. `marks` is what it can be looked up by, and `result` what was answered, both as JSON.
CREATE TABLE errand (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    tool TEXT NOT NULL,
    target TEXT NOT NULL,
    digest TEXT NOT NULL,
    begun_us INTEGER NOT NULL,
    proposal TEXT NOT NULL,
    arguments_hash TEXT NOT NULL,
    fate TEXT NOT NULL,
    ended_us INTEGER,
    marks TEXT NOT NULL,
    result TEXT
) STRICT;
CREATE INDEX errand_digest ON errand (digest, number);
CREATE INDEX errand_proposal ON errand (proposal, number) WHERE proposal != '';
CREATE INDEX errand_open ON errand (number) WHERE fate IN ('begun', 'unsure');
CREATE INDEX errand_ended ON errand (ended_us) WHERE ended_us IS NOT NULL;

-- Which tasks and threads of other services name which page, newest time only.
CREATE TABLE mention (
    path TEXT NOT NULL,
    origin TEXT NOT NULL,
    title TEXT NOT NULL,
    url TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (path, origin)
) STRICT, WITHOUT ROWID;
CREATE INDEX mention_at ON mention (at_us);
