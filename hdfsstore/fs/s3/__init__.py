"""S3: its settings, and the FileManager of a bucket."""
