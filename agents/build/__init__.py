"""Build: first the concepts that a thing rests on and a plan, then step by step, each with what shows that it is made."""
