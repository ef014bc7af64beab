"""Weighing new text against existing text, by kind of block."""
