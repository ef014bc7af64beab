"""Commits of acts in the Git repository that a knowledge base lies in, made with the `git` program."""
