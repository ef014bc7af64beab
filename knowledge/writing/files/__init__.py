"""Files on disk: exchange, recovery, and saves by other programs."""
