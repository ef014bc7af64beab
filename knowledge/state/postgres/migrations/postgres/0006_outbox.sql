-- What was done in other services. `marks` is what it can be looked up by, and `result` what was answered, both as JSON.
CREATE TABLE forge.errand (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    principal text COLLATE "C" NOT NULL,
    tool text NOT NULL,
    target text NOT NULL,
    digest text COLLATE "C" NOT NULL,
    begun_at timestamptz NOT NULL,
    proposal text COLLATE "C" NOT NULL,
    arguments_hash text NOT NULL,
    fate text NOT NULL,
    ended_at timestamptz,
    marks text NOT NULL,
    result text
);
CREATE INDEX errand_digest ON forge.errand (digest, number);
CREATE INDEX errand_proposal ON forge.errand (proposal, number) WHERE proposal <> '';
CREATE INDEX errand_open ON forge.errand (number) WHERE fate IN ('begun', 'unsure');
CREATE INDEX errand_ended ON forge.errand (ended_at) WHERE ended_at IS NOT NULL;

-- Which tasks and threads of other services name which page, newest time only. `origin_key` is the SHA-256 of the origin, because
-- an index holds no text as long as the name of a thread may be.
CREATE TABLE forge.mention (
    path text COLLATE "C" NOT NULL,
    origin_key bytea NOT NULL,
    origin text COLLATE "C" NOT NULL,
    title text NOT NULL,
    url text NOT NULL,
    mentioned_at timestamptz NOT NULL,
    PRIMARY KEY (path, origin_key)
);
CREATE INDEX mention_at ON forge.mention (mentioned_at);
