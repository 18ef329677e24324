"""Spark's data sources over a checkpoint: `hdfsstore` and `hdfsstore-metadata`."""
