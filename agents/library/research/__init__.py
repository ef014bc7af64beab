"""The research agent: a tree of questions, answered with citations."""
