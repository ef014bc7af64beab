-- Places whose text a person vouches for: `plane`, `plane:KB`, `zulip:design`. What is read there holds nobody up.
CREATE TABLE trusted_place (
    place TEXT NOT NULL PRIMARY KEY,
    trusted_by TEXT NOT NULL,
    at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What sentences of text that nobody vouches for are known by, and where it came from: so that it is known again when its reader
-- writes it down as their own. Of each caller only the newest ones, for a day.
CREATE TABLE read_passage (
    principal TEXT NOT NULL,
    digest BLOB NOT NULL,
    origin TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (principal, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX read_passage_at ON read_passage (principal, at_us);
