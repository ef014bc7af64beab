"""Reranking: a cross-encoder reads the question together with each of the first passages. Off unless a person chose one."""
