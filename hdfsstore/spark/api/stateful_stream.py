"""The output of a stateful function: it cannot be read, only written by writeStream."""

from __future__ import annotations

from dataclasses import dataclass

from hdfsstore.spark.api.writer import StatefulStreamWriter
from hdfsstore.spark.driver.query_description import QueryDescription


@dataclass(frozen=True, slots=True)
class StatefulStream:
    """The output of a stateful function. It cannot be read, only written: see writeStream.

    Attributes:
        description: the stream's input and its function.
    """

    description: QueryDescription

    @property
    def writeStream(self) -> StatefulStreamWriter:
        """Says where and how to write the output, as PySpark's DataFrame.writeStream."""
        return StatefulStreamWriter(self.description)
