"""Research: a question becomes a tree, the tree answers with quotes, the answers insights, and a frontier."""
