"""Journeys as people read them: sentences and plain data for terminal and page, and a report in Markdown."""
