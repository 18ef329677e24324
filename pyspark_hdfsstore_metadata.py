"""Where Spark finds the source `hdfsstore-metadata` by its name.

It imports all modules pyspark_* and takes the DefaultSource of each. An import that failed would take
all Python sources of a session with it, so it does not.
"""

import logging

try:
    from hdfsstore.spark.source.metadata_source import MetadataSource as DefaultSource
except Exception:
    logging.getLogger(__name__).warning("the source hdfsstore-metadata cannot be loaded", exc_info=True)
else:
    __all__ = ["DefaultSource"]
