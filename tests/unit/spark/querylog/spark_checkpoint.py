"""A checkpoint of Spark's own operator, from which a query of ours goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

from hdfsstore.codecs import types as t
from hdfsstore.spark.querylog.state_description import StateDescription
from hdfsstore.spark.spec import value_schema
from hdfsstore.state.conf import StateStoreConf
from tests.support.truth import DATA

METHOD = "applyInPandasWithState"
CASE = "spark-4.3.0/apply_in_pandas_with_state"
CONF = StateStoreConf()
KEY = t.StructType((t.StructField("k", t.StringType()),))
STATE = t.StructType((t.StructField("total", t.LongType()),))
# As the query that wrote the checkpoints has it; two partitions are pinned.
WANTED = StateDescription(METHOD, "EventTimeTimeout", KEY, value_schema(STATE, "EventTimeTimeout"), 5)
LAST = 2  # the state is empty after batch 4


def a_copy(tmp_path: Path, case: str = CASE) -> Path:
    """The checkpoint as it was after batch LAST, without checksum files."""
    checkpoint = shutil.copytree(DATA / case / "checkpoint", tmp_path / "checkpoint")
    for path in [*checkpoint.rglob(".*.crc"), *checkpoint.glob("offsets/[0-9]"), *checkpoint.glob("commits/[0-9]")]:
        if path.suffix or int(path.name) > LAST:
            path.unlink()
    return checkpoint
