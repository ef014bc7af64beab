"""Understanding a question: its words, its language, typos, and the places that it names."""
