"""A person takes changes of pages back: whether their word is enough, and the proposal to sign if it is not."""
