"""The review page: a web server on localhost for people."""
