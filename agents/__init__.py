"""How work moves through phases: graphs, journeys and where they are kept. Knows nothing of MCP."""
