"""The rules that a plan has to meet, and how long its tasks take."""
