"""How work moves through phases: graphs, journeys and where they are kept. Has never heard of MCP."""
