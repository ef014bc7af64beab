-- What each principal used of a quota, by slots of time.
CREATE TABLE quota (
    principal TEXT NOT NULL,
    kind TEXT NOT NULL,
    slot_us INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (principal, kind, slot_us)
) STRICT, WITHOUT ROWID;

-- A proposal as lists show it, as JSON, so that they read none of its long texts; and how much of these is left: `kept` is 0 for
-- all, 1 for what is kept after it ended, 2 for what is kept after its retention. A proposal of an older program has no line yet.
CREATE TABLE proposal_line (
    number INTEGER PRIMARY KEY,
    kept INTEGER NOT NULL,
    line TEXT NOT NULL
) STRICT;
CREATE INDEX proposal_line_kept ON proposal_line (kept, number) WHERE kept < 2;

-- Journeys and runs whose texts were shortened after their retention.
CREATE TABLE journey_cut (number INTEGER PRIMARY KEY, cut_us INTEGER NOT NULL) STRICT;
CREATE TABLE run_cut (number INTEGER PRIMARY KEY, cut_us INTEGER NOT NULL) STRICT;
