"""Values and decisions of the gateway. Pure: no I/O, no clock, no randomness."""
