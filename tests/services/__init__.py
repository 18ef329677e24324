"""Real servers for tests: each listens on 127.0.0.1 only, on free ports, and ends with the run that started it."""
