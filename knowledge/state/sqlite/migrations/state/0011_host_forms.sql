-- Whether a form that a host shows counts as its person's word. It holds for the secret that the host had then, and for no later one.
CREATE TABLE host_forms (
    host TEXT PRIMARY KEY,
    secret_digest BLOB NOT NULL,
    allowed INTEGER NOT NULL,
    decided_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
