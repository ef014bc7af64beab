"""The review page: where people see what callers propose, and decide, in a browser on this machine."""
