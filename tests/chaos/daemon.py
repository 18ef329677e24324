"""pyspark.daemon with the imports of tasks done: workers are killed all the time, and the next one starts at once."""

import importlib

import pyspark.daemon

for module in ("pandas", "pyarrow.compute", "pyarrow.dataset", "hdfsstore.spark.worker.task", "tests.chaos.functions"):
    importlib.import_module(module)

if __name__ == "__main__":
    pyspark.daemon.manager()
