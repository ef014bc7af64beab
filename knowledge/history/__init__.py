"""What happened to pages: revisions, provenance and the audit chain."""
