"""What runs on the driver: the settings of a query, and its batches one after another."""
