"""`hdfsstore sql`: queries the state stores with DuckDB. Each store is a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from hdfsstore import StateStoreError
from hdfsstore.cli import options
from hdfsstore.cli.output import choose_format, note, numbered, write_rows
from hdfsstore.cli.output_file import Format
from hdfsstore.cli.sql_prompt import interruptible, statements
from hdfsstore.cli.sql_tables import Tables


def sql(
    path: options.Location,
    query: Annotated[
        str | None,
        typer.Argument(
            help="Each store is a table: `state` is the default store of operator 0, every other store or state "
            "variable is `state_<operator>_<name>`, and `state_at_3` is `state` after batch 3. The columns are those "
            "of read. With - the query comes from stdin; without a query there is a prompt.",
            show_default=False,
        ),
    ] = None,
    batch: options.BatchId = None,
    limit: options.Limit = None,
    format: options.RowFormat = None,
    json: options.Json = False,
    output: options.Output = None,
    option_file: options.OptionFile = None,
) -> None:
    """Query the state with SQL (DuckDB's): "select key.user, value.count from state order by 2 desc"."""
    duckdb = _duckdb()
    chosen = choose_format(format, json, output)
    checkpoint = options.open_checkpoint(path, option_file)
    with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        connection.execute("set timezone = 'UTC'")
        run = _Runner(connection, Tables(connection, checkpoint, batch), chosen, output, limit)
        if query is None and sys.stdin.isatty():
            _prompt(run, duckdb.Error)
            return
        try:
            text = sys.stdin.read() if query in (None, "-") else query
            if not run(_utf8(text)):
                raise typer.BadParameter("the query gives no rows; write a select", param_hint="QUERY")
        except duckdb.Error as error:
            raise typer.BadParameter(f"{error}\n{run.tables.described}", param_hint="QUERY") from None


def _utf8(query: str) -> str:
    """The query. Raises BadParameter if its bytes are not UTF-8: Python keeps such a byte as half a surrogate pair."""
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise typer.BadParameter(
            f"the query has to be UTF-8, and character {error.start} is not", param_hint="QUERY"
        ) from None
    return query


class _Runner:
    """Runs statements, and writes their rows."""

    def __init__(self, connection: Any, tables: Tables, format: Format, output: Path | None, limit: int | None) -> None:
        self.tables = tables
        self._connection = connection
        self._format = format
        self._output = output
        self._limit = options.rows_limit(limit, format)

    def __call__(self, query: str) -> bool:
        """Whether the statement gives rows. Raises duckdb.Error."""
        self.tables.prepare(query)
        return interruptible(self._connection, lambda: self._run(query))

    def _run(self, query: str) -> bool:
        result = self._connection.sql(query)
        if result is None:  # DuckDB 1 returns None for a statement without rows.
            return False
        reader = pa.RecordBatchReader.from_stream(result)
        write_rows(*numbered(reader.schema, reader), self._format, self._output, self._limit)
        return True


def _prompt(run: _Runner, query_error: type[Exception]) -> None:
    note(f"{run.tables.described} A statement ends with ; and Ctrl-D ends the session.")
    for statement in statements():
        try:
            run(statement)
        except (query_error, StateStoreError, OSError) as error:
            note(f"Error: {error}")
        except KeyboardInterrupt:
            note("Interrupted.")


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise StateStoreError("the command sql needs DuckDB: pip install 'hdfsstore[sql]'") from None
    return duckdb
