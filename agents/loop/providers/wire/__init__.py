"""The shared parts of the providers' wire formats."""
