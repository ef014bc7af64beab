"""The domain: pages, search, merging and the records behind them. Knows nothing of MCP or agents."""
