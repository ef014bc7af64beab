"""Cards: pages that a host shows beside a tool's result, by the extension MCP Apps. They only show; nothing is approved there."""
