-- The key that seals what clients carry: questions with their state, and sessions. In SQLite's place it is a file. No copy of the state holds it.
CREATE TABLE forge.sealing_key (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    secret bytea NOT NULL
);
