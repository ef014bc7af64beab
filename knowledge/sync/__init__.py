"""Carries changes between a knowledge base and a Git remote: fetch, merge by our own merge of pages, push."""
