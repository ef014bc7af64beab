"""The doors of a knowledge base: `export` and `import`."""
