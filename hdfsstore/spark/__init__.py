"""Stateful functions of PySpark on the state store of this package."""
