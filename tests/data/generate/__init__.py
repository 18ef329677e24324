"""Writes the checkpoints of tests/data with real Sparks, and what Spark itself reads from them."""
