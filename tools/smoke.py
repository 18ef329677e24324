"""Opens every checkpoint of a folder with the installed wheel: python -I tools/smoke.py tests/data."""

import importlib
import sys
from pathlib import Path

import pyarrow as pa

import hdfsstore

rows = checkpoints = 0
for metadata in sorted(Path(sys.argv[1]).glob("spark-*/*/checkpoint/metadata")):
    checkpoint = hdfsstore.Checkpoint(metadata.parent)
    if not checkpoint.provider.endswith("HDFSBackedStateStoreProvider"):
        continue
    for operator in checkpoint.operators:
        for store in operator.stores:
            if store.key_schema is None or store.value_schema is None:
                continue
            rows += checkpoint.read_state(operator.operator_id, store.name).num_rows
    checkpoints += 1
if not rows:
    sys.exit("no row was read")
where = Path(hdfsstore.__file__).parent
print(f"Python {sys.version.split()[0]}, pyarrow {pa.__version__}: {rows} rows of {checkpoints} checkpoints")
# Spark imports these on every driver; without PySpark they have no source, and do not fail.
importlib.import_module("pyspark_hdfsstore")
importlib.import_module("pyspark_hdfsstore_metadata")
if "site-packages" not in where.parts:
    sys.exit(f"the wheel was not used: {where}")
