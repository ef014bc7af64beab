"""Choosing an agent for a brief: what each costs, and the lightest that is enough."""
