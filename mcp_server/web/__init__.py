"""The site of the knowledge base: a web server on localhost for people."""
