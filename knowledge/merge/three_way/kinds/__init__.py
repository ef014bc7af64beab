"""Three-way merge inside a block, by kind of block."""
