-- The timeline of all pages, newest first.
CREATE INDEX revision_at ON forge.revision (made_at, id);
