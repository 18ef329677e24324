"""What runs in Spark's Python workers: tasks, the engines that call the user's function, and the partition's state."""
