-- What the front matter of a page says about it. No engine has these lines: a few words that many pages share would be found before
-- the pages that are about them.
CREATE TABLE property (
    doc INTEGER PRIMARY KEY,
    line_start INTEGER NOT NULL,
    text TEXT NOT NULL,
    terms TEXT NOT NULL
) STRICT;

CREATE TABLE property_term (
    term TEXT NOT NULL,
    doc INTEGER NOT NULL,
    PRIMARY KEY (term, doc)
) STRICT, WITHOUT ROWID;
