"""What Obsidian keeps in a vault besides pages: canvases, block ids, and the folders of its templates and daily notes. Pure."""
