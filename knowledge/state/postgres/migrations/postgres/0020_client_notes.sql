-- What the processes of a server need to know of an HTTP session of the 2025 protocol (`session` is a hash of its id): `uri:...` is a
-- subscription, `asked:...` a question to the client with its answer in `body`, `stream` the newest stream of events, `ended` an end.
CREATE TABLE forge.client_note (
    session text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    body text,
    noted_at timestamptz NOT NULL,
    PRIMARY KEY (session, name)
);
CREATE INDEX client_note_by_age ON forge.client_note (noted_at);
