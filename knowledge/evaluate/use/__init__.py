"""Evaluates search by its use: which pages were used after which question, and which ranking weights fit that best."""
