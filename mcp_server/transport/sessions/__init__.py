"""HTTP sessions of the 2025 protocol that no process keeps: each request may land in any process of the server."""
