"""Offers what users call: grouped streams, stateful functions, and the writer that starts a query."""
