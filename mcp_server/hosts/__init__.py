"""Each host's configuration file: its form, and how our entry gets in and out of it without disturbing the rest."""
