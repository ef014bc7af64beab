-- Which pages have knowledge from a task or a thread, and where they have gone since.
CREATE INDEX revision_source ON revision (source, seq) WHERE source LIKE 'plane:%' OR source LIKE 'zulip:%';
CREATE INDEX revision_moved_to ON revision (moved_from, seq) WHERE moved_from IS NOT NULL;
