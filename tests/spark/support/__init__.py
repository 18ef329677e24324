"""Jobs, functions and runs that the tests on a live Spark share."""
