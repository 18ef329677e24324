"""What `make demo` runs: a streaming query on a real Spark, and its checkpoint opened by hdfsstore."""
