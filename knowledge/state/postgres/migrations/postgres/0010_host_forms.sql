-- Whether a form that a host shows counts as its person's word. It holds for the secret that the host had then, and for no later one.
CREATE TABLE forge.host_forms (
    host text COLLATE "C" PRIMARY KEY,
    secret_digest bytea NOT NULL,
    allowed boolean NOT NULL,
    decided_at timestamptz NOT NULL
);
