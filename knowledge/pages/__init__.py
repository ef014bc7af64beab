"""Pages: paths, documents, front matter, Markdown, and the folder that they are read from."""
