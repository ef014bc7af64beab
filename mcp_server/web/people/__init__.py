"""The page of people: who they are, their tokens and groups, and the rules and reviewers of folders."""
