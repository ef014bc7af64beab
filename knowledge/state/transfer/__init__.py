"""Copies a whole state database to another one: to PostgreSQL and back, into a backup and out of it."""
