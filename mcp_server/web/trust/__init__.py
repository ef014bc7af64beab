"""Pages about trust and the audit."""
