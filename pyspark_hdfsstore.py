"""Where Spark finds the source `hdfsstore` by its name.

It imports all modules pyspark_* and takes the DefaultSource of each. An import that failed would take
all Python sources of a session with it, so it does not.
"""

import logging

try:
    from hdfsstore.spark.source.state_source import StateSource as DefaultSource
except Exception:
    logging.getLogger(__name__).warning("the source hdfsstore cannot be loaded", exc_info=True)
else:
    __all__ = ["DefaultSource"]
