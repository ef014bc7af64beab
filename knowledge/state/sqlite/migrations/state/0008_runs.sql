-- A run is its header and its frames. What stands in `run` beside them is what they come to, for lists and sums. `holder` leads it,
-- until `held_us` if nothing more is heard of it. Cost is in millionths of a currency; `unpriced`: some of it nobody knows.
CREATE TABLE run (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    header TEXT NOT NULL,
    title TEXT NOT NULL,
    principal TEXT NOT NULL,
    model TEXT NOT NULL,
    state TEXT NOT NULL,
    frames INTEGER NOT NULL,
    begun_us INTEGER NOT NULL,
    moved_us INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    holder TEXT,
    held_us INTEGER
) STRICT;
CREATE INDEX run_principal ON run (principal, number);
CREATE INDEX run_state ON run (state, number);

CREATE TABLE run_frame (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (run, number),
    UNIQUE (run, id)
) STRICT;
