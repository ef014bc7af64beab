"""The people who may decide on a proposal: reviewers of the pages that it touches, and not those who asked for it."""
