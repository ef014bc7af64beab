"""What is kept of texts that nobody needs whole any more."""
