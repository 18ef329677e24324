"""A driver of Spark for test_hdfs_protection.py: python -m tests.integration.kerberos_driver URI FOLDER KEYTAB CONF.

URI is that of the checkpoint, and CONF the krb5.conf.

It logs in with the keytab, runs a batch of a stateful query, and prints "done", or why it was refused.
"""

from __future__ import annotations

import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.integration.session_query import run_batch
from tests.services import java, kdc


def main(checkpoint: str, folder: str, keytab: str, krb5_conf: str) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.kerberos.principal", f"{kdc.USER}@{kdc.REALM}")
        .config("spark.kerberos.keytab", keytab)
        .config(
            "spark.driver.extraJavaOptions",
            " ".join([*java.QUICK_START, f"-Djava.security.krb5.conf={krb5_conf}"]),
        )
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 1)
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    try:
        run_batch(spark, checkpoint, Path(folder))
    except Py4JJavaError as error:
        print("refused:", error.java_exception.toString())
    else:
        print("done")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
