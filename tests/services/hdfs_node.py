"""One NameNode or DataNode: a JVM of its own that runs HdfsNode.java."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tests.services import cache, java
from tests.services.process import ServerProcess

_SOURCE = Path(__file__).with_name("HdfsNode.java")
_START_SECONDS = 120  # and to run a command
_STARTS = 20  # while a connection of somebody else has its port
_JVM = ("-Xmx128m", *java.QUICK_START)
_LOGGING = """\
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c{1}: %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
"""


def write_xml(path: Path, conf: Mapping[str, str]) -> None:
    """A file of Hadoop's configuration."""
    properties = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in conf.items()
    )
    path.write_text(f"<configuration>\n{properties}</configuration>\n")


class HdfsNode:
    """A node with its files in `folder`, which `stop` and `start` again keep.

    Args:
        kind: "namenode" or "datanode".
        folder: for its configuration and its log.
        conf: Hadoop's configuration.
        jvm: more options of the JVM.
    """

    def __init__(self, kind: str, folder: Path, conf: Mapping[str, str], jvm: Sequence[str] = ()) -> None:
        self._kind = self._role = kind
        self._jvm = (*_JVM, *jvm)
        self._folder = folder
        folder.mkdir(parents=True)
        write_xml(folder / "core-site.xml", {"fs.defaultFS": conf["fs.defaultFS"]})
        self._conf = dict(conf)
        write_xml(folder / "hdfs-site.xml", conf)
        (folder / "log4j2.properties").write_text(_LOGGING)
        self._process: ServerProcess | None = None

    @property
    def process(self) -> ServerProcess:
        """To freeze it, for one."""
        assert self._process is not None, "the node is not started"
        return self._process

    @property
    def started(self) -> bool:
        return self._process is not None

    def launch(self, *, after_format: bool = False) -> None:
        """Starts it without waiting for it; a NameNode's folder is formatted first on request."""
        self._role = f"format-and-{self._kind}" if after_format else self._kind
        self._launch()

    def _launch(self) -> None:
        path = ":".join(map(str, [self._folder, *class_path()]))
        command = [java.executable(), *self._jvm, "-cp", path, "HdfsNode", self._role]
        self._process = ServerProcess(command, log=self._folder / "node.log", talks=True)

    def wait_until_up(self) -> None:
        """A NameNode answers; a DataNode has reported to its NameNodes."""
        for start in range(_STARTS):
            try:
                self._answer()
                return
            except EOFError as error:
                if "java.net.BindException" not in str(error) or start == _STARTS - 1:
                    raise
            time.sleep(3)
            self._launch()

    def start(self) -> None:
        self.launch()
        self.wait_until_up()

    def stop(self) -> None:
        """Ends it at once, as a loss of power does; nothing that it acknowledged is lost."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def start_anew(self, changes: Mapping[str, str]) -> None:
        """Stops it, and starts it with a configuration that is changed so."""
        self.stop()
        self._conf |= changes
        write_xml(self._folder / "hdfs-site.xml", self._conf)
        self.start()

    def run(self, *command: str) -> str:
        """Lets it run a command of Hadoop: dfsadmin, haadmin, crypto or fs, and arguments; or `token FILE`, which
        writes a delegation token.

        Returns:
            what the command printed.

        Raises:
            RuntimeError: the command failed.
        """
        self.process.say("\t".join(command))
        return self._answer()

    def _answer(self) -> str:
        lines = []
        while True:
            line = self.process.read_line(_START_SECONDS)
            if line == "exit 0":
                return "\n".join(lines).removesuffix("\n")
            if line.startswith("exit "):
                raise RuntimeError("\n".join([*lines, self.process.log_end()]))
            lines.append(line)


@functools.cache
def class_path() -> list[Path]:
    """What a node runs with: the daemons of one jar from Maven, and the rest from PySpark.

    Raises:
        ServiceMissingError: there is no Java, or the jar cannot be had.
    """
    version = java.hadoop_version()
    daemons = cache.whole_folder(f"hdfs-{version}", lambda folder: _download(folder, version))
    names = ["hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j"]
    # The daemons log through these.
    names += ["log4j-api", "log4j-core", "log4j-slf4j2-impl", "log4j-1.2-api"]
    libraries = [daemons / "unpacked", daemons / "daemons.jar", *map(java.spark_jar, names)]
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    main = cache.whole_folder(f"hdfs-node-{version}-{digest}", lambda folder: _compile(folder, libraries))
    return [main, *libraries]


def _download(folder: Path, version: str) -> None:
    java.download(
        folder,
        [f"org.apache.hadoop:hadoop-client-minicluster:{version}"],
        # In PySpark's jars.
        [
            "org.apache.hadoop:hadoop-client-api",
            "org.apache.hadoop:hadoop-client-runtime",
            "org.slf4j:*",
            "org.xerial.snappy:*",
        ],
    )
    (jar,) = folder.glob("*.jar")
    # A NameNode looks through all of the jar for the pages that it serves, which takes 2.6 s of its 5 s. So they
    # stand in a folder, where they are found at once, and not in the jar.
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(folder / "daemons.jar", "w") as target:
        for entry in source.infolist():
            if entry.filename.startswith("webapps/") or "/namenode/web/resources/" in entry.filename:
                source.extract(entry, folder / "unpacked")
            elif not entry.is_dir():
                target.writestr(entry.filename, source.read(entry))
    jar.unlink()


def _compile(folder: Path, libraries: list[Path]) -> None:
    """By the compiler that Spark brings: a JRE is all that tests need."""
    path = ":".join(map(str, [java.spark_jar("janino"), java.spark_jar("commons-compiler")]))
    compiler = "org.codehaus.commons.compiler.samples.CompilerDemo"
    arguments = ["-d", folder, "-classpath", ":".join(map(str, libraries)), _SOURCE]
    done = subprocess.run(
        [java.executable(), "-cp", path, compiler, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if not (folder / "HdfsNode.class").exists():
        raise RuntimeError(f"{_SOURCE} does not compile:\n{done.stdout}")
