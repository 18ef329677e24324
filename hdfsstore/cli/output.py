"""Writes record batches to a terminal, a pipe or a file: table, csv, json, parquet, arrow.

CSV is written here, because the csv module of Python 3.11
writes null and the empty string alike, and Arrow's writer quotes every text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hdfsstore.checkpoint.packed_values import has_packed
from hdfsstore.cli.output_file import BINARY, Format, format_of, opened
from hdfsstore.cli.parquet import storable, store
from hdfsstore.cli.progress import STDERR
from hdfsstore.conditions.names import renamed, unique_names, with_names
from hdfsstore.conditions.texts import is_number, json_texts, texts

TABLE_ROWS = 20
_TO_QUOTE = re.compile('[,"\r\n]')


def note(text: str) -> None:
    """Prints a remark on stderr, apart from the rows."""
    STDERR.print(Text(text, "dim"), highlight=False, soft_wrap=True)


def choose_format(format: Format | None, json: bool, output: Path | None) -> Format:
    """The format of the options, else that of the file's name; a table on stdout. Raises BadParameter."""
    if json and format not in (None, Format.JSON):
        raise typer.BadParameter(f"--json and --format {format} exclude each other")
    given = Format.JSON if json else format
    chosen = format_of(output, given) if output else given or Format.TABLE
    if chosen in BINARY and output is None and sys.stdout.isatty():
        raise typer.BadParameter(f"{chosen} is binary: write it to a file with -o, or into a pipe")
    return chosen


def streams_to_terminal(format: Format, output: Path | None) -> bool:
    """Whether rows are printed on the terminal while they are read, so that a progress bar would be in the way."""
    return output is None and format != Format.TABLE and sys.stdout.isatty()


def numbered(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """The same rows with unique field names. Prints the changed names on stderr, and what would show packed values."""
    if has_packed(schema):
        note("Values are shown as msgpack's bytes: pip install msgpack shows what they mean.")
    unique = unique_names(schema)
    if unique is schema:
        return schema, batches
    note(f"Fields with the same name are numbered: {', '.join(renamed(schema, unique))}")
    return unique, (with_names(batch, unique) for batch in batches)


def write_rows(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], format: Format, output: Path | None = None, limit: int = 0
) -> None:
    """Writes at most `limit` rows (0 = all). Says on stderr if there are more."""
    rows = _Limited(batches, limit)
    with opened(output) as file:
        _WRITERS[format](schema, rows, file)
    if rows.cut:
        note(f"The first {limit:,} rows; --limit 0 shows all.")


class _Limited:
    """Yields the first `limit` rows and closes their source; `cut` says whether there were more."""

    def __init__(self, batches: Iterable[pa.RecordBatch], limit: int) -> None:
        self._batches = batches
        self._limit = limit
        self.cut = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        left = self._limit
        for batch in self._batches:
            if self._limit and batch.num_rows > left:
                self.cut = True
                if isinstance(self._batches, Generator):  # Ends the progress bar before the rows are printed.
                    self._batches.close()
                if left:
                    yield batch.slice(0, left)
                return
            left -= batch.num_rows
            yield batch


def columns_of(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    """The columns under their full names, as conditions have them. Structs are split into their fields."""
    return [
        leaf
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        for leaf in (_leaves(name, column) if pa.types.is_struct(column.type) else [(name, column)])
    ]


def _leaves(name: str, column: pa.StructArray) -> Iterator[tuple[str, pa.Array]]:
    for field, child in zip(column.type, column.flatten(), strict=True):
        if pa.types.is_struct(field.type) and field.type.num_fields:
            yield from _leaves(f"{name}.{field.name}", child)
        else:
            yield f"{name}.{field.name}", child


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _write_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
    """Writes a table. On a terminal that is too narrow, the fields of a row are printed below each other."""
    columns = columns_of(_empty(schema))
    rows = [
        [Text("null", "dim") if text is None else Text(_printable(text)) for text in row]
        for batch in batches
        for row in zip(*(texts(column) for _, column in columns_of(batch)), strict=True)
    ]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, column in columns:
        table.add_column(Text(name), justify="right" if is_number(column.type) else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    terminal = Console() if file is sys.stdout.buffer else None
    wide = Console(width=1_000_000, color_system=None)
    wide.width = max(wide.measure(table).maximum, 1)
    if terminal is None or not terminal.is_terminal:
        with wide.capture() as capture:
            wide.print(table)
        file.write(capture.get().encode())
    elif wide.width <= terminal.width:
        terminal.print(table)
    else:
        terminal.print(_upright([Text(name, "bold") for name, _ in columns], rows))


def _upright(names: list[Text], rows: list[list[Text]]) -> Table:
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        for name, value in zip(names, row, strict=True):
            table.add_row(name, value)
        table.add_section()
    return table


def _printable(text: str) -> str:
    """Escapes control characters, so that state cannot control the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
    header: list[str | None] = [name for name, _ in columns_of(_empty(schema))]
    for batch in chain([None], batches):
        rows = [header] if batch is None else zip(*(texts(column) for _, column in columns_of(batch)), strict=True)
        for row in rows:
            file.write((",".join(map(_csv_field, row)) + "\r\n").encode())


def _csv_field(text: str | None) -> str:
    """Quotes a field (RFC 4180). Null is an empty field, the empty string two quotes."""
    if text is None:
        return ""
    if text == "" or _TO_QUOTE.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _write_json(_: pa.Schema, batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
    for batch in batches:
        lines = json_texts(pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)))
        file.write("".join(f"{line}\n" for line in lines).encode())


def _write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
    stored = pa.schema([storable(field) for field in schema])
    with pq.ParquetWriter(file, stored) as writer:
        for batch in batches:
            columns = [store(column, field.type) for column, field in zip(batch.columns, stored, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=stored))


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
    """Writes the format with random access into a file, and the streaming format into a pipe."""
    new = pa.ipc.new_stream if file is sys.stdout.buffer else pa.ipc.new_file
    with new(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


_WRITERS = {
    Format.TABLE: _write_table,
    Format.CSV: _write_csv,
    Format.JSON: _write_json,
    Format.PARQUET: _write_parquet,
    Format.ARROW: _write_arrow,
}
