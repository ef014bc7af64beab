-- What a language model said of pages and directories in one line each, for maps. `key` says of what, by its content.
CREATE TABLE forge.map_line (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text COLLATE "C" NOT NULL UNIQUE,
    text text NOT NULL,
    model text NOT NULL,
    tokens bigint NOT NULL,
    made_at timestamptz NOT NULL
);
CREATE INDEX map_line_made ON forge.map_line (made_at);
