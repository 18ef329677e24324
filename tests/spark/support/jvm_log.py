"""Reads what the JVM of a Spark session logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def jvm_log(spark: SparkSession) -> Iterator[Callable[[], str]]:
    """Gives a function that returns what was logged so far, with the stack traces, from this call on."""
    jvm: Any = spark._jvm
    core = jvm.org.apache.logging.log4j.core
    text = jvm.java.io.StringWriter()
    appender = core.appender.WriterAppender.createAppender(None, None, text, "jvm_log", False, True)
    logger = jvm.org.apache.logging.log4j.LogManager.getRootLogger()
    appender.start()
    logger.addAppender(appender)
    try:
        logger.error("jvm_log begins")
        assert "jvm_log begins" in text.toString(), "what the JVM logs does not arrive"
        yield text.toString
    finally:
        logger.removeAppender(appender)
        appender.stop()
