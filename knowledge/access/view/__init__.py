"""A knowledge base as one caller may read it: its files, its records and its index, without anything that is hidden."""
