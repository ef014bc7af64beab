"""How work moves through phases. Has never heard of MCP; the phase engine moves in here."""
