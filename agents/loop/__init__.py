"""A bounded run towards a goal: frames, decisions, execution, and the language models behind one port."""
