"""The page of people: who they are, their tokens and groups, and the reviewers of folders."""
