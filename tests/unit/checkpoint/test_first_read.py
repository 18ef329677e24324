"""What the first read of a process costs besides the rows: a command, or a worker of Spark, often reads only once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.truth import DATA

READ = """
import sys, hdfsstore
hdfsstore.Checkpoint(sys.argv[1]).read_state({arguments})
print([name for name in sys.modules if name.startswith("pandas")])
"""


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("offset_log_v2", ""),
        ("rocksdb_unique_ids", ""),
        ("join_left_outer", "join_side='left'"),
        ("transform_structures", "state_var='seen'"),
    ],
)
def test_no_pandas_is_imported(case: str, arguments: str) -> None:
    program = [sys.executable, "-c", READ.format(arguments=arguments), str(DATA / "spark-4.3.0" / case / "checkpoint")]
    assert subprocess.run(program, check=True, capture_output=True, text=True).stdout == "[]\n"
