"""Runs on the driver: starts a query, and runs its batches one after another."""
