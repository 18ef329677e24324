"""The providers of a worker, and what of their counters each report has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hdfsstore.spark.providers import Providers
from tests.unit.spark.partition import Partition, struct


def test_upkeep_between_two_tasks_is_in_the_second_report(tmp_path: Path) -> None:
    query = Partition(tmp_path, struct(k="long"), struct(n="long")).query
    query = replace(query, store_conf=replace(query.store_conf, min_deltas_for_snapshot=0))
    providers = Providers()
    unique_id = None
    reports = []
    for version in range(3):
        provider = providers.get(query, 0)
        store = provider.get_store(version, unique_id)
        store.put(b"key%d" % version + b"\0" * 12, b"\0" * 16)
        unique_id = store.commit().checkpoint_unique_id
        reports.append(providers.unreported(query, 0, store.metrics))
        provider.do_maintenance()
    assert [report["numTotalStateRows"] for report in reports] == [1, 2, 3]
    assert [report["snapshotsUploaded"] for report in reports] == [0, 1, 1]
    assert providers.get(query, 0) is provider
    assert providers.unreported(query, 1, {"snapshotsUploaded": 2}) == {"snapshotsUploaded": 2}
