-- What all runs took in a day is looked up before each question to a model: without a row of `run`, which may be long, being read.
CREATE INDEX run_moved ON run (moved_us, begun_us, principal, tokens_in, tokens_out, cost_micros, unpriced);
