"""The content of a question: its words, typos, and the places that it names."""
