-- Places whose text a person vouches for: `plane`, `plane:KB`, `zulip:design`. What is read there holds nobody up.
CREATE TABLE forge.trusted_place (
    place text COLLATE "C" NOT NULL PRIMARY KEY,
    trusted_by text NOT NULL,
    trusted_at timestamptz NOT NULL
);

-- What sentences of text that nobody vouches for are known by, and where it came from: so that it is known again when its reader
-- writes it down as their own. Of each caller only the newest ones, for a day.
CREATE TABLE forge.read_passage (
    principal text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    origin text NOT NULL,
    read_at timestamptz NOT NULL,
    PRIMARY KEY (principal, digest)
);
CREATE INDEX read_passage_at ON forge.read_passage (principal, read_at);
