-- Pages and attachments that are kept here instead of in a folder: which bytes each path has now. One that was removed keeps its row,
-- without a digest, so that copies of the files learn of it. `seq` is that of the change's event, so rows become visible in its order.
CREATE TABLE forge.stored_file (
    path_key bytea PRIMARY KEY,
    path text NOT NULL,
    digest bytea REFERENCES forge.content,
    changed_at timestamptz NOT NULL,
    seq bigint NOT NULL
);
CREATE INDEX stored_file_seq ON forge.stored_file (seq, path_key);
CREATE INDEX stored_file_digest ON forge.stored_file (digest);

-- Exchanges the bytes of a file if they are still `was` (NULL: there is no file), or ends the transaction. An event must follow, whose
-- number the row has: the counter is held until the commit.
CREATE FUNCTION forge.exchange_file(key bytea, named text, was bytea, becomes bytea, at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    coming bigint;
BEGIN
    SELECT c.seq + 1 INTO coming FROM forge.counter c FOR UPDATE;
    IF was IS NULL THEN
        INSERT INTO forge.stored_file AS known (path_key, path, digest, changed_at, seq)
        VALUES (key, named, becomes, at, coming)
        ON CONFLICT (path_key) DO UPDATE SET digest = becomes, changed_at = at, seq = coming WHERE known.digest IS NULL;
    ELSE
        UPDATE forge.stored_file f SET digest = becomes, changed_at = at, seq = coming
        WHERE f.path_key = key AND f.digest = was;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'KF005', MESSAGE = named;
    END IF;
END
$$;

-- As before, and keeps the bytes that a file has now.
CREATE OR REPLACE FUNCTION forge.forget(keys bytea[], digests bytea[], seen_before timestamptz) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    dropped integer;
BEGIN
    DELETE FROM forge.page_state AS s USING unnest(keys, digests) AS old (path_key, digest)
    WHERE s.path_key = old.path_key AND s.digest = old.digest AND NOT s.in_history AND s.seen_at < seen_before;
    GET DIAGNOSTICS dropped = ROW_COUNT;
    DELETE FROM forge.content AS c WHERE c.digest = ANY(digests)
    AND NOT EXISTS (SELECT FROM forge.page_state AS s WHERE s.digest = c.digest)
    AND NOT EXISTS (SELECT FROM forge.stored_file AS f WHERE f.digest = c.digest);
    RETURN dropped;
END
$$;
