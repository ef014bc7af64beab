"""Fair use: limits on the calls of one caller, and turns, so that a caller with many calls does not keep the others waiting."""
