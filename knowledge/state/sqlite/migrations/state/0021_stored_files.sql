-- Pages and attachments that are kept here instead of in a folder: which bytes each path has now. One that was removed keeps its row,
-- without a digest, so that copies of the files learn of it. `seq` is that of the change's event.
CREATE TABLE stored_file (
    path TEXT NOT NULL PRIMARY KEY,
    digest BLOB,
    at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX stored_file_seq ON stored_file (seq, path);
CREATE INDEX stored_file_digest ON stored_file (digest);
