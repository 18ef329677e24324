"""A live Spark as the oracle."""
