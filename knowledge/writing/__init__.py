"""Writes pages: atomically, on record, recoverably, and beside editors that take no locks."""
