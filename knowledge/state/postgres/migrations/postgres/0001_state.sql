-- `forge.` stands for the schema of the knowledge base. Texts are ordered by code points, as in the other engines.
CREATE TABLE forge.meta (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    application text NOT NULL,
    version integer NOT NULL
);

CREATE TABLE forge.enrolment (
    host text COLLATE "C" PRIMARY KEY,
    secret_digest bytea NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX enrolment_digest ON forge.enrolment (secret_digest);

CREATE TABLE forge.standing (
    principal text COLLATE "C" PRIMARY KEY,
    score double precision NOT NULL,
    floor double precision NOT NULL,
    ceiling double precision NOT NULL,
    frozen boolean NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE forge.standing_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    principal text COLLATE "C" NOT NULL,
    changed_at timestamptz NOT NULL,
    score_before double precision NOT NULL,
    score_after double precision NOT NULL,
    reason text NOT NULL,
    decided_by text NOT NULL
);
CREATE INDEX standing_change_principal ON forge.standing_change (principal, id);

-- A released lease has no holder, and keeps its fence.
CREATE TABLE forge.lease (
    name text COLLATE "C" PRIMARY KEY,
    holder text,
    fence bigint NOT NULL,
    expires_at timestamptz NOT NULL
);

-- A sequence would hand out numbers in another order than transactions commit, and a reader that goes on from the
-- highest number it saw would miss the late one. Whoever publishes holds this row until the commit.
CREATE TABLE forge.counter (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    seq bigint NOT NULL
);
INSERT INTO forge.counter (seq) VALUES (0);

CREATE TABLE forge.event (
    seq bigint PRIMARY KEY,
    topic text NOT NULL,
    key text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now()
);

-- What each caller has seen, newest time only; `journey` is '' outside of one. No index on the times: it would make
-- every repeated look write to two indexes, for one pruning an hour.
CREATE TABLE forge.look (
    principal text COLLATE "C" NOT NULL,
    journey text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    circle text COLLATE "C" NOT NULL,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (principal, journey, path, circle)
);

CREATE TABLE forge.nudge (
    principal text COLLATE "C" NOT NULL,
    journey text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    given_at timestamptz NOT NULL,
    PRIMARY KEY (principal, journey, path)
);

-- Begins every write: waits while somebody migrates, and ends the transaction of a program that has been overtaken.
CREATE FUNCTION forge.enter(lock bigint, known integer, light boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found integer;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock);
    SELECT version INTO found FROM forge.meta;
    IF found > known THEN
        RAISE EXCEPTION USING ERRCODE = 'KF001', MESSAGE = format('%s %s', found, known);
    END IF;
    IF light THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$$;
