"""Mutations: which small changes of the code no test notices, and which tests notice what no other does."""
