"""One file for each kind of source: each turns what it finds into pages and attachments."""
