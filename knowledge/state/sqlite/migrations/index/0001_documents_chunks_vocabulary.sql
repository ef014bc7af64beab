CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation TEXT NOT NULL,
    seq INTEGER NOT NULL,
    doc INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    total INTEGER NOT NULL,
    embedder TEXT,
    dimensions INTEGER,
    recipe INTEGER
) STRICT;
INSERT INTO meta VALUES (1, lower(hex(randomblob(8))), 0, 0, 0, 0, NULL, NULL, NULL);

-- `lists` is JSON: [tags, aliases, sections].
CREATE TABLE document (
    doc INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    path_key TEXT NOT NULL,
    parent TEXT NOT NULL,
    title TEXT NOT NULL,
    summary TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    language TEXT NOT NULL,
    lists TEXT NOT NULL,
    untrusted INTEGER NOT NULL,
    revision TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    indexed_at_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX document_parent_path ON document (parent, path);
CREATE INDEX document_parent_mtime ON document (parent, mtime_ns);
CREATE INDEX document_path_key ON document (path_key);
-- Covers the question that every start asks of every file, so that the wide rows need not be read.
CREATE INDEX document_stamp ON document (path, size, mtime_ns, inode, revision, indexed_at_ns);

-- Compressed: in how many chunks of the document each word is. Apart from the document, so that scans stay narrow.
CREATE TABLE document_words (
    doc INTEGER PRIMARY KEY,
    words BLOB NOT NULL
) STRICT;

CREATE TABLE tag (
    tag TEXT NOT NULL,
    doc INTEGER NOT NULL,
    PRIMARY KEY (tag, doc)
) STRICT, WITHOUT ROWID;

CREATE TABLE name (
    key TEXT NOT NULL,
    rank INTEGER NOT NULL,
    path TEXT NOT NULL,
    position INTEGER NOT NULL,
    section TEXT,
    doc INTEGER NOT NULL,
    PRIMARY KEY (key, rank, path, position)
) STRICT, WITHOUT ROWID;

-- What is listed for every chunk is kept apart from what is wide, so that reading all codes reads few pages.
CREATE TABLE chunk (
    seq INTEGER PRIMARY KEY,
    doc INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    section TEXT NOT NULL,
    line_start INTEGER NOT NULL,
    line_end INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE code (
    seq INTEGER PRIMARY KEY,
    doc INTEGER NOT NULL,
    digest BLOB NOT NULL,
    code BLOB NOT NULL
) STRICT;
CREATE INDEX code_doc ON code (doc);
CREATE INDEX code_digest ON code (digest);

CREATE TABLE vector (
    seq INTEGER PRIMARY KEY,
    half BLOB NOT NULL
) STRICT;

CREATE TABLE removal (
    seq INTEGER PRIMARY KEY,
    gone INTEGER NOT NULL
) STRICT;

CREATE TABLE directory (
    path TEXT PRIMARY KEY,
    parent TEXT,
    documents INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX directory_parent_path ON directory (parent, path);
CREATE INDEX directory_parent_modified ON directory (parent, modified_ns);
INSERT INTO directory VALUES ('', NULL, 0, 0);

CREATE TABLE vocabulary (
    word TEXT PRIMARY KEY,
    chunks INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
