-- A run is its header and its frames. What stands in `run` beside them is what they come to, for lists and sums. `holder` leads it,
-- until `held_until` if nothing more is heard of it. Cost is in millionths of a currency; `unpriced`: some of it nobody knows.
CREATE TABLE forge.run (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    header text NOT NULL,
    title text NOT NULL,
    principal text COLLATE "C" NOT NULL,
    model text NOT NULL,
    state text NOT NULL,
    frames bigint NOT NULL,
    begun_at timestamptz NOT NULL,
    moved_at timestamptz NOT NULL,
    tokens_in bigint NOT NULL,
    tokens_out bigint NOT NULL,
    cost_micros bigint NOT NULL,
    unpriced boolean NOT NULL,
    holder text COLLATE "C",
    held_until timestamptz
);
CREATE INDEX run_principal ON forge.run (principal, number);
CREATE INDEX run_state ON forge.run (state, number);

CREATE TABLE forge.run_frame (
    run bigint NOT NULL,
    number bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (run, number),
    UNIQUE (run, id)
);
