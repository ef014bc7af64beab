"""The pages of the whole state: where it is, backups, and replacing or moving it."""
