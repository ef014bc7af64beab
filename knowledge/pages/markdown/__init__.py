"""Markdown: blocks, inline text, chunks, and the language of a text."""
