"""Who may call over HTTP: tokens and what an answer says about them."""
