"""A bounded run towards a goal: frames, what decides, what carries out, and the language models behind one port."""
