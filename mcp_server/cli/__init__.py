"""The command line: one file per verb, each with `arguments(parser)` and `run(args, settings) -> exit code`."""
