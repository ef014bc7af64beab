"""The record of a run: frames, the run that they add up to, and the transcript a model reads."""
