"""The port of a language model and its errors."""
