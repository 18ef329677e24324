"""Arrow to the values that user functions take, and what they return to Arrow: Rows, pandas frames, single values."""
