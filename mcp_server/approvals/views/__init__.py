"""Views of a proposal: for a host that asks for it, and for a person after the page has changed."""
