"""Mutations: small changes of the code that no test notices, and tests that notice what no other does."""
