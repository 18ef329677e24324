"""Writes the output of batches: the formats of writeStream, and tables."""
