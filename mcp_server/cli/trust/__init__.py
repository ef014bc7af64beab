"""Verbs about trust: trust, enroll, token, audit."""
