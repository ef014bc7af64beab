"""What is shortened or deleted, and when."""
