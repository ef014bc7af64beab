-- A journey is the log of its events. What stands in `journey` beside its number and id is what they come to, so that nobody
-- need read them all: `folded` as JSON, by the rules `folding`; where those are others by now it is made anew.
CREATE TABLE forge.journey (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    agent text NOT NULL,
    principal text COLLATE "C" NOT NULL,
    status text NOT NULL,
    phase text NOT NULL,
    version bigint NOT NULL,
    seq bigint NOT NULL,
    started_at timestamptz NOT NULL,
    moved_at timestamptz NOT NULL,
    title text NOT NULL,
    folding integer NOT NULL,
    folded text NOT NULL
);
CREATE INDEX journey_principal ON forge.journey (principal, number);
CREATE INDEX journey_status ON forge.journey (status, number);

-- `key` names the act of a step, on the first of its events.
CREATE TABLE forge.journey_event (
    journey bigint NOT NULL,
    seq bigint NOT NULL,
    version bigint NOT NULL,
    happened_at timestamptz NOT NULL,
    actor text NOT NULL,
    key text COLLATE "C",
    body text NOT NULL,
    PRIMARY KEY (journey, seq)
);
CREATE UNIQUE INDEX journey_event_key ON forge.journey_event (journey, key) WHERE key IS NOT NULL;
