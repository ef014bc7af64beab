"""Access to the page: login links, sessions, passkeys."""
