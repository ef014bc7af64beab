-- Bearer tokens of people and programs on other machines. Only the hash of a token is kept. `toolsets` is a JSON list, or null for all.
CREATE TABLE forge.token (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    secret_digest bytea NOT NULL,
    ceiling integer NOT NULL,
    toolsets text,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);
