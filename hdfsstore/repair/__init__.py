"""Changes the checkpoint of a query of Spark while the query is stopped, so that Spark goes on from what is written."""
