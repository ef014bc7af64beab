"""Maps of any size, part by part."""
