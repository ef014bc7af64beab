-- Questions that were asked through hosts, and the pages that were used after them. `route` is `navigation` or `discovery`,
-- `shown` a JSON list of the pages in the order of the answer, `filters` JSON. `continued` is 1 for a further page of one answer.
CREATE TABLE question (
    id INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    principal TEXT NOT NULL,
    journey TEXT NOT NULL,
    session TEXT NOT NULL,
    query TEXT NOT NULL,
    path TEXT NOT NULL,
    filters TEXT NOT NULL,
    route TEXT NOT NULL,
    continued INTEGER NOT NULL,
    shown TEXT NOT NULL
) STRICT;
CREATE INDEX question_at ON question (at_us);
-- `how` is `read` or `merge`. `untrusted` is 1 if the page's text is from an untrusted source.
CREATE TABLE page_use (
    id INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    principal TEXT NOT NULL,
    journey TEXT NOT NULL,
    session TEXT NOT NULL,
    path TEXT NOT NULL,
    how TEXT NOT NULL,
    untrusted INTEGER NOT NULL
) STRICT;
CREATE INDEX page_use_at ON page_use (at_us);
