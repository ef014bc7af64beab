"""Who may see the page: login links, sessions, passkeys."""
