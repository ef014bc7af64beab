-- What a language model said of pages and directories in one line each, for maps. `key` says of what, by its content.
CREATE TABLE map_line (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    model TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    made_us INTEGER NOT NULL
) STRICT;
CREATE INDEX map_line_made ON map_line (made_us);
