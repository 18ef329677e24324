"""`hdfsstore fork`, `repartition`, `convert`, `edit`, `rewrite`: write a new checkpoint from which Spark goes on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from hdfsstore import repair
from hdfsstore.cli import options
from hdfsstore.cli.option_file import read_options
from hdfsstore.cli.plans import MEMORY, DryRun, Memory, Tmp, limits_of, show
from hdfsstore.cli.progress import rows_told
from hdfsstore.conditions.fields import ConditionError
from hdfsstore.repair.edit import Edit, sql_function
from hdfsstore.repair.limits import MOST_PARTITIONS
from hdfsstore.repair.operator_kinds import KINDS
from hdfsstore.repair.plan import Plan


class Provider(StrEnum):
    HDFS = "hdfs"
    ROCKSDB = "rocksdb"


ToOrInPlace = Annotated[
    str | None,
    typer.Option("--to", metavar="NEW", help="The new checkpoint: a folder or a URI, empty or missing."),
]
InPlace = Annotated[
    bool,
    typer.Option(
        "--in-place",
        help="Add a batch with that state to the checkpoint itself, in the place of --to. The query must be stopped; "
        "`hdfsstore undo` takes it back.",
    ),
]
FileSink = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER", help="With --in-place: the folder of the query's file sink, whose log gets an entry."
    ),
]
To = Annotated[
    str,
    typer.Option(metavar="NEW", help="The new checkpoint: a folder or a URI, empty or missing.", show_default=False),
]
BatchId = Annotated[
    int | None,
    typer.Option("--batch", help="The batch after which Spark goes on; by default the newest committed one.", min=0),
]
Partitions = Annotated[
    int, typer.Option(help="The number of state partitions.", min=1, max=MOST_PARTITIONS, show_default=False)
]
ToProvider = Annotated[Provider, typer.Option(help="The state store provider.", show_default=False)]
Remove = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION", help="Remove the rows that meet it, such as: value.count < 0.", show_default=False
    ),
]
SetRows = Annotated[
    Path | None,
    typer.Option(
        "--set",
        metavar="FILE",
        help="Put the rows of a Parquet file, with the columns that `hdfsstore read` writes: each replaces the row of "
        "its key, or is new.",
        dir_okay=False,
        show_default=False,
    ),
]
Sql = Annotated[
    str | None,
    typer.Option(
        metavar="SELECT",
        help="Make all rows anew by a query of DuckDB on the table `state`, with key, value and partition_id.",
        show_default=False,
    ),
]
KeepQueryId = Annotated[
    bool,
    typer.Option(
        "--keep-query-id",
        help="The new checkpoint has the query id of the old one, so sinks that go by query id and batch take the "
        "batches of both queries for the same.",
    ),
]
DropBegun = Annotated[
    bool,
    typer.Option(
        "--drop-begun",
        help="Leave out a batch that was begun and is not committed: its rows are planned anew, and a sink that goes "
        "by batch ids may get them twice.",
    ),
]
KeepBegun = Annotated[
    bool, typer.Option("--keep-begun", help="Spark runs such a batch again, with the same offsets, on the new state.")
]
OperatorKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--operator-kind",
        metavar="OPERATOR=KIND",
        help=f"What an operator is, where Spark has not named it (before 4.0): {', '.join(KINDS)}.",
        show_default=False,
    ),
]
ToOptionFile = Annotated[
    Path | None,
    typer.Option(
        help="As --option-file, for the storage of NEW; by default that is reached as PATH is.",
        dir_okay=False,
        show_default=False,
    ),
]


def _shared(
    batch: BatchId = None,
    keep_query_id: KeepQueryId = False,
    drop_begun: DropBegun = False,
    keep_begun: KeepBegun = False,
    operator_kind: OperatorKinds = None,
    memory: Memory = MEMORY,
    tmp: Tmp = None,
    dry_run: DryRun = False,
    option_file: options.OptionFile = None,
    to_option_file: ToOptionFile = None,
) -> repair.Options:
    """The options that all of these commands have."""
    if drop_begun and keep_begun:
        raise typer.BadParameter("--drop-begun and --keep-begun exclude each other")
    storage = read_options(option_file) or None
    return {
        "batch_id": batch,
        "keep_query_id": keep_query_id,
        "drop_begun": drop_begun,
        "keep_begun": keep_begun,
        "operator_kinds": dict(_operator_kind(text) for text in operator_kind or ()),
        "limits": limits_of(memory, tmp),
        "dry_run": dry_run,
        "storage_options": storage,
        "to_storage_options": storage if to_option_file is None else read_options(to_option_file) or None,
    }


def _where(to: ToOrInPlace = None, in_place: InPlace = False, file_sink: FileSink = None) -> dict[str, Any]:
    """The options of those that write to a new checkpoint or in place."""
    if (to is None) != in_place:
        raise typer.BadParameter("give --to NEW, or --in-place")
    return {"to": to, "file_sink": file_sink}


def _edits(
    operator: options.OperatorId = 0,
    store: options.StoreName = "default",
    remove: Remove = None,
    set_rows: SetRows = None,
    sql: Sql = None,
) -> dict[str, Edit | None]:
    """The options of those that change rows."""
    if remove is None and set_rows is None and sql is None:
        return {"change": None}
    if sql is not None and (remove is not None or set_rows is not None):
        raise typer.BadParameter("--sql gives all rows, so neither --remove nor --set goes with it")
    rows = None
    if set_rows is not None:
        try:
            rows = pq.read_table(set_rows)
        except (OSError, pa.ArrowException) as error:
            raise typer.BadParameter(f"{set_rows} is no Parquet file: {error}", param_hint="--set") from None
    return {"change": Edit(operator, store, remove, rows, None if sql is None else sql_function(sql))}


def _with(*groups: Callable[..., Mapping[str, Any]]) -> Callable[[Callable[..., Plan]], Callable[..., None]]:
    """Makes a command of typer of a function that runs a verb: it shows the plan.

    The command has the function's own options, those of the groups, and --json. Each group turns its options into
    arguments of the verb.
    """

    def command_of(verb: Callable[..., Plan]) -> Callable[..., None]:
        own, *grouped = ([*inspect.signature(each, eval_str=True).parameters.values()] for each in (verb, *groups))

        def run(json: bool, **given: Any) -> None:
            for group, parameters in zip(groups, grouped, strict=True):
                given |= group(**{each.name: given.pop(each.name) for each in parameters})
            with rows_told() as progress:
                try:
                    plan = verb(**given, progress=progress)
                except ConditionError as error:
                    raise typer.BadParameter(str(error), param_hint="--remove") from None
            show(plan, json)

        named = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
        json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=options.Json)
        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in chain(named, *grouped, [json])]
        run.__name__, run.__doc__ = verb.__name__, verb.__doc__
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in every}
        return run

    return command_of


@_with(_shared)
def fork(path: options.Location, to: To, **chosen: Any) -> Plan:
    """Write a whole, small checkpoint at one batch, to try things on or to start a second query.

    Example: hdfsstore fork /data/checkpoint --batch 56 --to /data/trial
    """
    return repair.fork(path, to, **chosen)


@_with(_where, _shared)
def repartition(path: options.Location, partitions: Partitions, **chosen: Any) -> Plan:
    """Write a new checkpoint with another number of state partitions, for every operator, or change it in place.

    Example: hdfsstore repartition /data/checkpoint --partitions 10 --to /data/checkpoint-10
    """
    return repair.repartition(path, partitions=partitions, **chosen)


@_with(_where, _shared)
def convert(path: options.Location, provider: ToProvider, **chosen: Any) -> Plan:
    """Write a new checkpoint for the other state store provider, or change the checkpoint in place.

    Example: hdfsstore convert /data/checkpoint --provider rocksdb --to /data/checkpoint-rocksdb
    """
    return repair.convert(path, provider=provider.value, **chosen)


@_with(_where, _edits, _shared)
def edit(path: options.Location, **chosen: Any) -> Plan:
    """Write a new checkpoint in which rows of one store are others: removed, put, or made anew.

    Example: hdfsstore edit /data/checkpoint --remove "value.count < 0" --set rows.parquet --to /data/new
    """
    if chosen["change"] is None:
        raise typer.BadParameter("give --remove, --set or --sql")
    return repair.edit(path, **chosen)


@_with(_where, _edits, _shared)
def rewrite(
    path: options.Location,
    partitions: Annotated[
        int | None, typer.Option(help="The number of state partitions.", min=1, max=MOST_PARTITIONS)
    ] = None,
    provider: Annotated[Provider | None, typer.Option(help="The state store provider.")] = None,
    **chosen: Any,
) -> Plan:
    """Do what fork, repartition, convert and edit do, in one pass over the state.

    Example: hdfsstore rewrite /data/checkpoint --batch 56 --partitions 10 --provider rocksdb --to /data/new
    """
    change = chosen.pop("change")
    edits = [] if change is None else [change]
    return repair.rewrite(path, partitions=partitions, provider=provider and provider.value, edits=edits, **chosen)


def _operator_kind(text: str) -> tuple[int, str]:
    number, equals, kind = text.partition("=")
    if not equals or not number.isdecimal() or kind not in KINDS:
        raise typer.BadParameter(f"{text!r} is not such as 0={KINDS[0]}", param_hint="--operator-kind")
    return int(number), kind
