"""Verbs that move, save and restore the state of a knowledge base."""
