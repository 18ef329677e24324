"""Site files mean to us what they mean to Hadoop, and its settings are known here."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hdfsstore.fs.hadoop_conf import read_hadoop_conf
from hdfsstore.fs.s3_keys import is_known
from hdfsstore.spark.querylog.session_storage import session_storage

_CORE = """<?xml version="1.0"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<configuration xmlns:xi="http://www.w3.org/2001/XInclude">
  <!-- a comment -->
  <property><name>fs.default.name</name><value>hdfs://old:1</value></property>
  <property><name> blanks </name><value>
     hdfs://nn:8020
  </value></property>
  <property><name>host</name><value>nn</value><final>true</final></property>
  <property><name>host</name><value>other</value></property>
  <property><name>nothing</name><value></value></property>
  <property><name>cdata</name><value><![CDATA[<a&b>]]></value></property>
  <property><name>escaped</name><value>&lt;a&amp;b&gt;&#33;</value></property>
  <property name="short" value="form" final="true"/>
  <property><name>nested</name><value>${host}:${env.PATH}-${env.NONE_HERE:-d}-${env.NONE_HERE-e}</value></property>
  <property><name>unbound</name><value>${nowhere}/${host}</value></property>
  <property><name>bound.first</name><value>${host}/${nowhere}</value></property>
  <property><name>self</name><value>x${self}y</value></property>
  <property><name>blank</name><value>${not this}-${host}</value></property>
  <property><name>dollars</name><value>$${host} ${$host} ${} {host} $host</value></property>
  <property><name>user</name><value>${user.name}</value></property>
  <xi:include href="more.xml"/>
  <xi:include href="none.xml"><xi:fallback><property name="fallen" value="back"/></xi:fallback></xi:include>
  <property><name>late</name><value>core</value></property>
</configuration>
"""
_MORE = """<configuration>
  <property><name>included</name><value>${late}</value></property>
  <property><name>late</name><value>included</value></property>
</configuration>
"""
_HDFS = """<configuration>
  <property><name>host</name><value>hdfs</value></property>
  <property><name>short</name><value>hdfs</value></property>
  <property><name>late</name><value>hdfs</value></property>
  <property><name>included</name></property>
</configuration>
"""


def test_every_property_is_as_hadoop_reads_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"core-site.xml": _CORE, "more.xml": _MORE, "hdfs-site.xml": _HDFS}.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    jvm: Any = spark._jvm
    theirs = jvm.org.apache.hadoop.conf.Configuration(False)
    for name in ("core-site.xml", "hdfs-site.xml"):
        theirs.addResource(jvm.org.apache.hadoop.fs.Path(str(tmp_path / name)))
    ours = read_hadoop_conf()
    assert dict(ours) == {name: value.strip() for name, value in theirs.getPropsWithPrefix("").items()}
    assert ours["nested"] == f"nn:{os.environ['PATH']}-d-e"
    assert ours["user"] == getpass.getuser()
    assert ours["fallen"] == "back"


def test_every_setting_of_s3a_that_hadoop_has_a_default_for_is_known(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    names = set(jvm.org.apache.hadoop.conf.Configuration().getPropsWithPrefix("fs.s3a."))
    assert len(names) > 50
    assert {name for name in names if not is_known(name)} == set()


@pytest.mark.parametrize("name", ["check points", "50%", "a%20b", "a+b", "Prüfung"])
def test_a_folder_of_a_session_has_its_letters_as_they_are(spark: SparkSession, name: str) -> None:
    """Hadoop's Path.toUri encodes blanks and percent signs, and Spark's own files have the plain name."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"hdfs://127.0.0.1:1/{name}/query")
    conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
    storage = session_storage(spark, path, conf, client=None, timeout_s=None)
    assert storage.given.uri == f"hdfs://127.0.0.1:1/{name}/query"
