"""Real servers for tests: each listens on 127.0.0.1 only, on a free port, and is ended by its own process id."""
