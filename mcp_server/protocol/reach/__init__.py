"""How far requests other than tool calls reach."""
