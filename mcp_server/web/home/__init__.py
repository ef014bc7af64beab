"""The first page of the site: what needs a person, and how the knowledge base is."""
