-- What the processes of a server need to know of an HTTP session of the 2025 protocol (`session` is a hash of its id): `uri:...` is a
-- subscription, `asked:...` a question to the client with its answer in `body`, `stream` the newest stream of events, `ended` an end.
CREATE TABLE client_note (
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT,
    noted_us INTEGER NOT NULL,
    PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX client_note_by_age ON client_note (noted_us);
