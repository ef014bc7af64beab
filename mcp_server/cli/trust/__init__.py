"""Verbs about trust: trust, enroll, audit."""
