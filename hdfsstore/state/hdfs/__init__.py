"""The backend of Spark's HDFSBackedStateStoreProvider: delta and snapshot files."""
