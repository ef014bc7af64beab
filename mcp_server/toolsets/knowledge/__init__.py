"""Tools that read and write pages."""
