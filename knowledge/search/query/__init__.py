"""What a question asks for: its words, typos, and places that it names."""
