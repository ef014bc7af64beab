-- A journey is the log of its events. What stands in `journey` beside its number and id is what they come to, so that nobody
-- need read them all: `folded` as JSON, by the rules `folding`; where those are others by now it is made anew.
CREATE TABLE journey (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    principal TEXT NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    version INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    moved_us INTEGER NOT NULL,
    title TEXT NOT NULL,
    folding INTEGER NOT NULL,
    folded TEXT NOT NULL
) STRICT;
CREATE INDEX journey_principal ON journey (principal, number);
CREATE INDEX journey_status ON journey (status, number);

-- `key` names the act of a step, on the first of its events.
CREATE TABLE journey_event (
    journey INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    actor TEXT NOT NULL,
    key TEXT,
    body TEXT NOT NULL,
    UNIQUE (journey, seq)
) STRICT;
CREATE UNIQUE INDEX journey_event_key ON journey_event (journey, key) WHERE key IS NOT NULL;
