"""Every store in memory: the specification that each engine's contract suite compares with."""
