-- A person dismisses a contradiction: `ruling` is `both` or `existing`. `pair` is the digest of its two statements, by which it is
-- known again; rows from before there was one have none until they are dismissed.
ALTER TABLE contradiction ADD COLUMN rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contradiction ADD COLUMN pair BLOB;
ALTER TABLE contradiction ADD COLUMN ruling TEXT;
ALTER TABLE contradiction ADD COLUMN ruled_by TEXT;
ALTER TABLE contradiction ADD COLUMN ruled_us INTEGER;
ALTER TABLE contradiction ADD COLUMN reason TEXT;
CREATE INDEX contradiction_pair ON contradiction (pair) WHERE settled_us IS NULL;
CREATE INDEX contradiction_ruled ON contradiction (existing_path) WHERE ruling IS NOT NULL;
