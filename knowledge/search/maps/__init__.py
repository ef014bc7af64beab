"""Maps of any size, part by part, and the links between pages."""
