"""The state database: ports, SQLite, PostgreSQL, quotas and retention."""
