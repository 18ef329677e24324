"""Background work on a store's files: snapshots, clean-up, and when they run."""
