-- Where the links of each page may lead: by key, because backlinks are looked up by the page that they lead to.
CREATE TABLE link (
    key TEXT NOT NULL,
    page TEXT NOT NULL,
    path TEXT NOT NULL,
    wiki INTEGER NOT NULL,
    PRIMARY KEY (key, page, path, wiki)
) STRICT, WITHOUT ROWID;

-- JSON: [[path, wiki], ...]. The keys of a page that goes are computed from it again, so the table above needs no second index.
CREATE TABLE document_links (
    doc INTEGER PRIMARY KEY,
    links TEXT NOT NULL
) STRICT;
