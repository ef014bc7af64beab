-- `space` is the generation of the vectors; it changes when they are exchanged, while that of the texts stays.
ALTER TABLE meta ADD COLUMN space TEXT NOT NULL DEFAULT '';
ALTER TABLE meta ADD COLUMN coming_embedder TEXT;
ALTER TABLE meta ADD COLUMN coming_dimensions INTEGER;
UPDATE meta SET space = generation;

-- By text and not by chunk: what is renamed, cut anew or indexed twice meanwhile need not be embedded again.
CREATE TABLE coming (
    digest BLOB NOT NULL,
    half BLOB NOT NULL,
    code BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX coming_digest ON coming (digest);

-- Nearly always empty: chunks that were stored while no embedder could be asked.
CREATE INDEX vector_missing ON vector (seq) WHERE half = x'';
