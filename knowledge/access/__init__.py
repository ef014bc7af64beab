"""People and groups, who may read, propose and write where, and who decides: the rules and the reviewers of folders."""
