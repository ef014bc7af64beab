"""Notices that the folder of a knowledge base was moved or renamed, and that its state is still named after the old path."""
