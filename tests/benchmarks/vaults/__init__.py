"""Vaults of Obsidian: how the server reads them, against an independent reading."""
