"""The reading side as files: pages, folders, tags and a search that work from a file system, without a server."""
