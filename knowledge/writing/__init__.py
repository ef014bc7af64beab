"""Writes pages: atomically, with a record of each act, recoverably, and safely beside editors that take no locks."""
