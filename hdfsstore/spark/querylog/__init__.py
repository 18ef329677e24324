"""Keeps a query's data in the checkpoint beside its state: the driver's log, schemas, migration from Spark's state."""
