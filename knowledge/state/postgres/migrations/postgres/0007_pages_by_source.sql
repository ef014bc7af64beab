-- Which pages have knowledge from a task or a thread, and where they have gone since.
CREATE INDEX revision_source ON forge.revision (source, seq) WHERE source LIKE 'plane:%' OR source LIKE 'zulip:%';
CREATE INDEX revision_moved_to ON forge.revision (moved_from_key, seq) WHERE moved_from_key IS NOT NULL;
