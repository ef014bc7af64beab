"""The history of pages: revisions, provenance and the audit chain."""
