"""What objects look like in a console and in a notebook."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from hdfsstore import Checkpoint
from tests.support.truth import DATA

CHECKPOINT = DATA / "spark-4.3.0" / "window_aggregation" / "checkpoint"


def test_batches_are_short() -> None:
    batches = Checkpoint(CHECKPOINT).batches
    assert len(repr(batches)) < 80 * len(batches)
    assert repr(batches[0]).startswith("Batch(0, committed, 20")
    begun = dataclasses.replace(batches[0], committed=False, timestamp_ms=0)
    assert repr(begun) == "Batch(0, not committed, none UTC)"
    assert "ms UTC" in repr(dataclasses.replace(begun, timestamp_ms=10**18))
    assert "logOffset" in batches[0]._repr_html_()


def test_a_checkpoint_and_a_store_in_a_notebook(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(CHECKPOINT, tmp_path / "a<b"))
    checkpoint = Checkpoint(copy)
    html = checkpoint._repr_html_()
    assert "a&lt;b: batches 0 to 4 committed" in html
    assert "<td>stateStoreSave</td><td>default</td><td>2</td>" in html
    store = checkpoint.operator().store()._repr_html_()
    assert "Store default of operator 0: 2 partitions" in store
    assert "window: struct&lt;" in store
