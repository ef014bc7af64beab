"""The server's reports to monitoring systems about its work: traces, metrics and log lines."""
