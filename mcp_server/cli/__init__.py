"""The command line: one file a verb, each with `arguments(parser)` and `run(args, settings) -> exit code`."""
