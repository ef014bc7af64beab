-- What waits, or waited, for a person. `told` is what never changes of it, as JSON, in which the first columns are once more.
CREATE TABLE forge.proposal (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    kind text NOT NULL,
    principal text COLLATE "C" NOT NULL,
    hash text NOT NULL,
    expires_at timestamptz NOT NULL,
    state text NOT NULL,
    ended_at timestamptz,
    successor text,
    runner text NOT NULL,
    runs_until timestamptz,
    verdict text,
    error text,
    result text,
    told text NOT NULL
);
CREATE INDEX proposal_principal ON forge.proposal (principal, number);
CREATE INDEX proposal_state ON forge.proposal (state, number);
CREATE INDEX proposal_pending ON forge.proposal (principal, expires_at) WHERE state = 'pending';
CREATE INDEX proposal_unfinished ON forge.proposal (runs_until)
WHERE (state = 'approved' OR (state = 'executed' AND result IS NULL));

CREATE TABLE forge.passkey (
    id bytea PRIMARY KEY,
    public_key bytea NOT NULL,
    sign_count bigint NOT NULL,
    name text NOT NULL,
    user_name text NOT NULL,
    created_at timestamptz NOT NULL,
    used_at timestamptz
);

-- Only digests of secrets are kept, and what each stands for.
CREATE TABLE forge.secret (
    digest bytea NOT NULL,
    purpose text NOT NULL,
    value text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (digest, purpose)
);
CREATE INDEX secret_expires ON forge.secret (expires_at);

-- From where each caller has read text that nobody vouches for, newest time only; `journey` is '' outside of one.
-- `origin_key` is the SHA-256 of the origin, because an index holds no text as long as an address may be.
CREATE TABLE forge.taint (
    principal text COLLATE "C" NOT NULL,
    journey text COLLATE "C" NOT NULL,
    origin_key bytea NOT NULL,
    origin text NOT NULL,
    read_at timestamptz NOT NULL,
    PRIMARY KEY (principal, journey, origin_key)
);

-- Ends an approved proposal as executed and tells who listens, or ends the transaction if it is not approved (any more).
-- What is no proposal at all is let pass.
CREATE FUNCTION forge.carry_out(carried text, ended timestamptz, channel text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    UPDATE forge.proposal SET state = 'executed', ended_at = ended WHERE id = carried AND state = 'approved';
    IF FOUND THEN
        UPDATE forge.counter SET seq = seq + 1 RETURNING seq INTO newest;
        INSERT INTO forge.event (seq, topic, key) VALUES (newest, 'proposal', carried);
        PERFORM pg_notify(channel, newest::text);
    ELSIF EXISTS (SELECT FROM forge.proposal WHERE id = carried) THEN
        RAISE EXCEPTION USING ERRCODE = 'KF003', MESSAGE = carried;
    END IF;
END
$$;
