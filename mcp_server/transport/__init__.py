"""How bytes reach the server: stdio and Streamable HTTP."""
