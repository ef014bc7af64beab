"""Acts on pages: merge, move, delete, revert."""
