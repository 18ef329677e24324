"""One page about a checkpoint: what is in it over time, as charts, tables and findings."""
