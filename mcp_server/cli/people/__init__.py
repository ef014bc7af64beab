"""Verbs about people: people, group, rule, reviewers."""
