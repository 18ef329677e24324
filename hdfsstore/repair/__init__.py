"""Repairs of a query's state, each a function that returns a Plan, or a Report of what it has done.

from hdfsstore import repair

print(*repair.repartition("/data/checkpoint", "/data/checkpoint-10", 10, dry_run=True).lines(), sep="\n")
"""

from hdfsstore.repair.edit import Edit
from hdfsstore.repair.findings import Finding
from hdfsstore.repair.limits import Limits
from hdfsstore.repair.plan import Plan, Report
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import Options, convert, edit, fork, repartition, rewrite
from hdfsstore.repair.verify import Verified, verify

__all__ = [
    "Edit",
    "Finding",
    "Limits",
    "Options",
    "Plan",
    "Report",
    "Verified",
    "convert",
    "edit",
    "fork",
    "repartition",
    "rewind",
    "rewrite",
    "undo",
    "verify",
]
