"""Reading Markdown: blocks, inlines, chunks and the language of a text."""
