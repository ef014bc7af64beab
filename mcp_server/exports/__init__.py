"""Copies of a knowledge base for elsewhere: a folder, one file of JSON lines, and a static site."""
