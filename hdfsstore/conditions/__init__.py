"""Conditions on rows in Arrow: fields by their names, literals, and the language of `--where`."""
