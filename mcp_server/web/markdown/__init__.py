"""Markdown of the knowledge base as HTML that is safe to show.

`renderer.render(text, links)` does it. `known_links` splits the work for another process: first the targets, then the page.
"""
