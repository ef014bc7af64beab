"""What the server tells monitoring systems about its work: traces, metrics and log lines."""
