"""What a query keeps in its checkpoint beside its state: the driver's log, schemas, migration from Spark's state."""
