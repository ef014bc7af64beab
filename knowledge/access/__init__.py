"""Who may read, propose and write where: the rules of folders."""
