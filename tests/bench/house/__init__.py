"""How the code is laid out: its rooms, functions, names, imports, and how far three calls travel through it."""
