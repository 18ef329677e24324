"""A store's life on an HDFS; it says all on stdout: `python -m ... <uri> <storage options> <local folder>`."""

from __future__ import annotations

import json
import logging
import sys
import traceback
import uuid

import hdfsstore
from tests.support.partition import live


def main(uri: str, options: dict[str, str], local: str) -> None:
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
    store_id = hdfsstore.StateStoreId(f"{uri}/state", 0, 0, storage_options=options)
    conf = hdfsstore.StateStoreConf(
        local_dir=local, maintenance_interval=0, min_deltas_for_snapshot=2, min_versions_to_retain=1
    )
    print(store_id, conf)
    with hdfsstore.open_provider(store_id, conf=conf) as provider:
        live(provider, 4)
        print(provider, provider.id, provider.metrics)
        try:
            provider.get_store(9, str(uuid.uuid4()))
        except hdfsstore.StateStoreError:
            traceback.print_exc(file=sys.stdout)
    try:
        hdfsstore.Checkpoint(uri, storage_options=options)
    except hdfsstore.StateStoreError:
        traceback.print_exc(file=sys.stdout)
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
