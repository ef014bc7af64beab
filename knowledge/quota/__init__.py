"""How much one caller may have stored, and how fast."""
