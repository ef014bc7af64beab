"""The understand agent: a course with objectives that the learner passes."""
