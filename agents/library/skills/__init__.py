"""Skills: cognitive agents in a row, as data beside this file."""
