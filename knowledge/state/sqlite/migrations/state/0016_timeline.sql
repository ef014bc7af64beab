-- The timeline of all pages, newest first.
CREATE INDEX revision_at ON revision (at_us, id);
