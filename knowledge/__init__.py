"""The domain: documents, finding, merging and the records behind them. Has never heard of MCP or agents."""
