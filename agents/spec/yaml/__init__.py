"""YAML with line numbers, so that each error names its line."""
