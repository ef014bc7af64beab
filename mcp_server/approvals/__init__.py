"""Proposals and the decisions of people about them."""
