"""HDFS: its settings, and a FileManager for each of the two clients that Python has for it."""
