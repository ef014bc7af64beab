"""Trust records, proposals, passkeys, and the untrusted text that each caller has read."""
