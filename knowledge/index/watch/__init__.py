"""Following changes of files."""
