"""How much each principal may store and start."""
