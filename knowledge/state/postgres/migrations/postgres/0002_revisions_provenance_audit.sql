-- The bytes of pages, by the SHA-256 of all of them, compressed with zlib; `size` is that of the bytes.
CREATE TABLE forge.content (
    digest bytea PRIMARY KEY,
    size bigint NOT NULL,
    packed bytea NOT NULL
);
ALTER TABLE forge.content ALTER COLUMN packed SET STORAGE EXTERNAL;

-- What each page has been, as far as we know it: from when, and when last. What is in its history is kept for good.
-- `path_key` is the SHA-256 of the path, because an index holds no text as long as a path may be.
CREATE TABLE forge.page_state (
    path_key bytea NOT NULL,
    digest bytea NOT NULL REFERENCES forge.content,
    path text NOT NULL,
    since_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    in_history boolean NOT NULL,
    PRIMARY KEY (path_key, digest)
);
CREATE INDEX page_state_digest ON forge.page_state (digest);
CREATE INDEX page_state_only_seen ON forge.page_state (seen_at) WHERE NOT in_history;

CREATE TABLE forge.revision (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    path_key bytea NOT NULL,
    path text NOT NULL,
    revision text,
    before text,
    made_at timestamptz NOT NULL,
    how text NOT NULL,
    principal text NOT NULL,
    tool text NOT NULL,
    source text NOT NULL,
    confidence double precision,
    proposal text,
    intent text NOT NULL,
    lines_added integer NOT NULL,
    lines_removed integer NOT NULL,
    moved_from text,
    moved_from_key bytea,
    seq bigint
);
CREATE INDEX revision_path ON forge.revision (path_key, id);
CREATE INDEX revision_move ON forge.revision (path_key, id) WHERE moved_from_key IS NOT NULL;
CREATE INDEX revision_seq ON forge.revision (seq) WHERE seq IS NOT NULL;

-- Acts that were begun, each as one blob, until they are committed or dropped.
CREATE TABLE forge.intent (
    id text COLLATE "C" PRIMARY KEY,
    begun_at timestamptz NOT NULL,
    packed bytea NOT NULL
);

-- Where the units of a page came from, all of them as one blob.
CREATE TABLE forge.origin (
    path_key bytea PRIMARY KEY,
    path text NOT NULL,
    revision text NOT NULL,
    packed bytea NOT NULL
);
ALTER TABLE forge.origin ALTER COLUMN packed SET STORAGE EXTERNAL;

-- `same` is what two reports of one contradiction have in common.
CREATE TABLE forge.contradiction (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    found_at timestamptz NOT NULL,
    principal text NOT NULL,
    existing_path text NOT NULL,
    new_path text NOT NULL,
    same bytea NOT NULL,
    told text NOT NULL,
    settled_at timestamptz
);
CREATE UNIQUE INDEX contradiction_open ON forge.contradiction (same) WHERE settled_at IS NULL;
CREATE INDEX contradiction_id ON forge.contradiction (id) WHERE settled_at IS NULL;

CREATE TABLE forge.audit (
    seq bigint PRIMARY KEY,
    body text NOT NULL,
    digest bytea NOT NULL
);

-- The newest record once more, so that a tail that was cut off is missed. Whoever adds to the chain, or to a history,
-- holds this row until the commit: links follow each other, and lines have the order of their commits.
CREATE TABLE forge.chain_end (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    seq bigint NOT NULL,
    digest bytea NOT NULL
);
INSERT INTO forge.chain_end (seq, digest) VALUES (0, '');

-- Ends an act that was begun, or the transaction if somebody else has ended it.
CREATE FUNCTION forge.end_intent(ended text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM forge.intent WHERE id = ended;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'KF002', MESSAGE = ended;
    END IF;
END
$$;

-- Adds a record whose body is `head`, its number, `tail`. Nothing is recorded on a chain whose end is not in order.
CREATE FUNCTION forge.append(head text, tail text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE forge.chain_end SET seq = seq + 1,
        digest = sha256(digest || convert_to(head || (seq + 1)::text || tail, 'UTF8'));
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'XX001', MESSAGE = 'the end of the audit chain is gone';
    END IF;
    INSERT INTO forge.audit SELECT seq, head || seq::text || tail, digest FROM forge.chain_end;
EXCEPTION
    WHEN unique_violation THEN
        RAISE EXCEPTION USING ERRCODE = 'XX001', MESSAGE = 'there are records behind the end of the audit chain';
END
$$;

-- Drops these states, unless they were seen again meanwhile, and then the bytes that nobody needs any more.
CREATE FUNCTION forge.forget(keys bytea[], digests bytea[], seen_before timestamptz) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    dropped integer;
BEGIN
    DELETE FROM forge.page_state AS s USING unnest(keys, digests) AS old (path_key, digest)
    WHERE s.path_key = old.path_key AND s.digest = old.digest AND NOT s.in_history AND s.seen_at < seen_before;
    GET DIAGNOSTICS dropped = ROW_COUNT;
    DELETE FROM forge.content AS c WHERE c.digest = ANY(digests)
    AND NOT EXISTS (SELECT FROM forge.page_state AS s WHERE s.digest = c.digest);
    RETURN dropped;
END
$$;
