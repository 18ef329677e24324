"""Key columns: which of the data's columns they are, and their floats as Spark's grouping has them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, StructField, StructType

from hdfsstore.spark.driver.unsupported import check_key


@dataclass(frozen=True, slots=True)
class Keys:
    """The rows of a query, with its key columns.

    Attributes:
        rows: all data columns in their order, then the key columns that are not simply one of those.
        names: of the key columns, the user's.
        positions: of them among the rows' columns.
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
        cols: names, ordinals from 1 on, and expressions.

    Raises:
        TypeError: something else is among them.
        IndexError: there is no column of that ordinal.
        UnsupportedQueryError: a key is of a type that has no order or no hash in Spark.
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
    """The name of the column that a key simply is; None: it may be a struct's field, or something else."""
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
    """The column with 0.0 for -0.0 and one NaN, at any depth, as Spark's NormalizeFloatingNumbers makes it."""
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
