"""Finds the key columns among the data's columns, and normalizes their floats as Spark's grouping does."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, StructField, StructType

from hdfsstore.spark.driver.unsupported import check_key


@dataclass(frozen=True, slots=True)
class Keys:
    """The rows of a query with their key columns.

    Attributes:
        rows: all data columns in their order, then the key columns that are not data columns.
        names: the user's names of the key columns.
        positions: the positions of the key columns in `rows`.
    """

    rows: DataFrame
    names: tuple[str, ...]
    positions: tuple[int, ...]

    @property
    def fields(self) -> list[StructField]:
        """The key columns under the user's names."""
        schema = self.rows.schema
        return [
            StructField(name, schema[position].dataType, schema[position].nullable)
            for name, position in zip(self.names, self.positions, strict=True)
        ]


def key_columns(df: DataFrame, cols: tuple[str | int | Column, ...]) -> Keys:
    """Adds the key columns to the data.

    Args:
        cols: names, ordinals (the first column is 1), and expressions.

    Raises:
        TypeError: a key is something else.
        IndexError: no column has that ordinal.
        UnsupportedQueryError: Spark cannot sort or hash a key's type.
    """
    names: list[str] = []
    positions: list[int] = []
    added: list[Column] = []
    data = df.columns
    for col in cols:
        if isinstance(col, int) and not isinstance(col, bool):
            if not 1 <= col <= len(data):
                raise IndexError(f"there is no column {col}: the columns' ordinals are 1 to {len(data)}")
            col = df[col - 1]
        if not isinstance(col, str | Column):
            raise TypeError(f"a key is a column's name or a Column, not {type(col).__name__}")
        column = F.col(col) if isinstance(col, str) else col
        field = df.select(column).schema[0]
        check_key(field)
        names.append(field.name)
        plain = _plain_name(col)
        if plain is not None and data.count(plain) == 1 and not _has_floats(field.dataType):
            positions.append(data.index(plain))
        else:
            positions.append(len(data) + len(added))
            added.append(_normalized(column, field.dataType).alias(f"__hdfsstore_key_{len(added)}"))
    return Keys(df.select("*", *added) if added else df, tuple(names), tuple(positions))


def _plain_name(col: str | Column) -> str | None:
    """The name of the data column that a key names; None if the key may be a struct's field or an expression."""
    text = col if isinstance(col, str) else str(col).removeprefix("Column<'").removesuffix("'>")
    quoted = text.startswith("`") and text.endswith("`")
    return text[1:-1] if quoted else None if "." in text else text


def _has_floats(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_has_floats(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return _has_floats(data_type.elementType)
    return isinstance(data_type, FloatType | DoubleType)


def _normalized(column: Column, data_type: DataType) -> Column:
    """Replaces -0.0 by 0.0 and every NaN by the same NaN, at any depth, as Spark's NormalizeFloatingNumbers does."""
    if not _has_floats(data_type):
        return column
    if isinstance(data_type, StructType):
        fields = [_normalized(column.getField(f.name), f.dataType).alias(f.name) for f in data_type]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(data_type, ArrayType):
        element_type = data_type.elementType
        return F.transform(column, lambda element: _normalized(element, element_type))
    zero, nan = (F.lit(value).cast(data_type) for value in (0.0, float("nan")))
    return F.when(F.isnan(column), nan).when(column == zero, zero).otherwise(column)
