"""Spark's RocksDB state store, its checkpoint files included, on rocksdict."""
