"""The router: navigation or discovery."""
