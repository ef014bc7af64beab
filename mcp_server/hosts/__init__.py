"""What each host's configuration looks like, and how our entry gets in and out of it without disturbing the rest."""
