-- What each caller has seen, newest time only; `journey` is '' outside of one.
CREATE TABLE look (
    principal TEXT NOT NULL,
    journey TEXT NOT NULL,
    path TEXT NOT NULL,
    circle TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (principal, journey, path, circle)
) STRICT, WITHOUT ROWID;
CREATE INDEX look_at ON look (at_us);

CREATE TABLE nudge (
    principal TEXT NOT NULL,
    journey TEXT NOT NULL,
    path TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (principal, journey, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX nudge_at ON nudge (at_us);
