"""`hdfsstore sql`: queries the state stores with DuckDB. Each store is a table."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pyarrow as pa
import typer

from hdfsstore import Checkpoint, StateStoreError
from hdfsstore.cli import options
from hdfsstore.cli.output import choose_format, numbered, write_rows
from hdfsstore.cli.progress import counted


def sql(
    path: options.Location,
    query: Annotated[
        str,
        typer.Argument(
            help="Each store is a table: `state` is the default store of operator 0, every other store is "
            "`state_<operator>_<store>`. The columns are key, value and partition_id.",
            show_default=False,
        ),
    ],
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
    stores = {
        table_name(operator.operator_id, store.name): (operator.operator_id, store.name)
        for operator in checkpoint.operators
        for store in operator.stores
    }
    with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        connection.execute("set timezone = 'UTC'")
        try:
            names = {name.lower() for name in connection.get_table_names(query)}
            for name in counted(sorted(names & stores.keys()), "Reading tables"):
                connection.register(name, _table(checkpoint, *stores[name], batch))
            result = connection.sql(query)
            if result is None:  # DuckDB 1 returns None for a statement without rows.
                raise typer.BadParameter("the query gives no rows; write a select", param_hint="QUERY")
            reader = pa.RecordBatchReader.from_stream(result)
            write_rows(*numbered(reader.schema, reader), chosen, output, options.rows_limit(limit, chosen))
        except duckdb.Error as error:
            listed = f"The tables are {', '.join(stores)}." if stores else "This checkpoint has no state."
            raise typer.BadParameter(f"{error}\n{listed}", param_hint="QUERY") from None


def table_name(operator_id: int, store_name: str) -> str:
    """The name of a store's table: state, state_1_default, state_0_left_keytonumvalues."""
    if (operator_id, store_name) == (0, "default"):
        return "state"
    return f"state_{operator_id}_{re.sub(r'[^0-9a-z]+', '_', store_name.lower())}"


def _table(checkpoint: Checkpoint, operator_id: int, store_name: str, batch_id: int | None) -> pa.Table:
    state = checkpoint.read_state(operator_id, store_name, batch_id)
    schema, batches = numbered(state.schema, state.to_batches())
    return pa.Table.from_batches(batches, schema)


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise StateStoreError("the command sql needs DuckDB: pip install 'hdfsstore[sql]'") from None
    return duckdb
