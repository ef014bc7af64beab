"""A page as the units that a merge compares."""
