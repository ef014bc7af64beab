"""Logging in on the site with a sign-in server (OpenID Connect), and who may."""
