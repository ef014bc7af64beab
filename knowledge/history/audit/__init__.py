"""The hash chain of the audit: its records, and how it is verified."""
