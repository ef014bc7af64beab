"""Each host's configuration file: its format, and how our entry is added and removed without disturbing the rest."""
