"""Lines that a language model made for maps, where nobody wrote one: kept by content, never in a file."""
