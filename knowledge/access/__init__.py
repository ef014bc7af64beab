"""People and groups, the rules that say who may read, propose and write in a folder, and the reviewers who decide there."""
