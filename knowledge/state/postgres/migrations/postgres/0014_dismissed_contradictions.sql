-- A person dismisses a contradiction: `ruling` is `both` or `existing`. `pair` is the digest of its two statements, by which it is
-- known again; rows from before there was one have none until they are dismissed.
ALTER TABLE forge.contradiction
    ADD COLUMN rank integer NOT NULL DEFAULT 0,
    ADD COLUMN pair bytea,
    ADD COLUMN ruling text,
    ADD COLUMN ruled_by text,
    ADD COLUMN ruled_at timestamptz,
    ADD COLUMN reason text;
CREATE INDEX contradiction_pair ON forge.contradiction (pair) WHERE settled_at IS NULL;
CREATE INDEX contradiction_ruled ON forge.contradiction (id) WHERE ruling IS NOT NULL;
