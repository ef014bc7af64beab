"""What happened to the pages: revisions, where each unit of text comes from, and the audit chain."""
