"""The ways out of a knowledge base and into it: `export` and `import`."""
