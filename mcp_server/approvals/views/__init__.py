"""A proposal as somebody sees it: a host that asks for it, and a person after the page has changed."""
