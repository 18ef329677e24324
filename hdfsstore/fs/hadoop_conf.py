"""Hadoop's configuration outside a JVM: the site files of HADOOP_CONF_DIR, read as Hadoop reads them.

    <configuration>
      <property><name>fs.defaultFS</name><value>hdfs://${env.NAMENODE:-nn}:8020</value><final>true</final></property>
      <xi:include href="more.xml"><xi:fallback/></xi:include>
    </configuration>

hdfs-site.xml is read after core-site.xml and wins, except over a property that is final. A property without a value is
left out. Hadoop's own defaults (core-default.xml) are in its jars and not read: what is here, somebody has set.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.parsers import expat

from hdfsstore.errors import StateStoreError

CREDENTIAL_PROVIDER_PATH: Final = "hadoop.security.credential.provider.path"
DEFAULT_FS: Final = "fs.defaultFS"

_FILES = ("core-site.xml", "hdfs-site.xml")
# Old names that a file may still have, and those that Hadoop gives them (Configuration.java, HdfsConfiguration.java).
_RENAMED = {
    "fs.default.name": DEFAULT_FS,
    "dfs.federation.nameservices": "dfs.nameservices",
    "dfs.block.size": "dfs.blocksize",
    "dfs.socket.timeout": "dfs.client.socket-timeout",
}
# As in Configuration.java: ${name} without blanks or a further $ in it.
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
_MOST_SUBSTITUTIONS = 20
_MOST_INCLUDES = 20
_MOST_BYTES = 64 << 20


class HadoopConf(Mapping[str, str]):
    """Properties by name, with the variables in their values replaced, and without blanks round them.

    A repr shows no values: some are keys and passwords.

    Args:
        properties: the values as they are in the files.
        overrides: more of them, which win.
    """

    def __init__(self, properties: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None) -> None:
        self._raw = {**(properties or {}), **(overrides or {})}

    def __getitem__(self, name: str) -> str:
        return _substituted(self._raw[name], self._raw, name).strip()

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __repr__(self) -> str:
        return f"<HadoopConf with {len(self._raw)} properties>"


def read_hadoop_conf() -> HadoopConf:
    """The site files in HADOOP_CONF_DIR; no properties if it is not set.

    Raises:
        StateStoreError: a file cannot be read or is no configuration.
    """
    folder = os.environ.get("HADOOP_CONF_DIR")
    if not folder:
        return HadoopConf()
    found = _Properties()
    for name in _FILES:
        path = Path(folder) / name
        if path.exists():
            _read(path, found, 0)
    return HadoopConf(found.values)


class _Properties:
    """What the files have said so far."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._final: set[str] = set()

    def add(self, name: str, value: str | None, is_final: bool) -> None:
        name = _RENAMED.get(name, name)
        if value is not None and name not in self._final:
            self.values[name] = value
        if is_final:
            self._final.add(name)


class _Parser:
    """Follows the events of one file. It holds an element at a time, however deep the file nests."""

    def __init__(self, path: Path, found: _Properties, depth: int) -> None:
        self._path = path
        self._found = found
        self._depth = depth
        self._text: list[str] | None = None
        self._name: str | None = None
        self._value: str | None = None
        self._is_final = False
        self._missing: str | None = None  # an include that has not been found, until its end or its fallback
        self._has_fallback = False
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity

    def parse(self, content: bytes) -> None:
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise self._error(f"this is not XML: {error}") from error

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        match _local(tag):
            case "property":
                self._name, self._value = attributes.get("name"), attributes.get("value")
                self._is_final = attributes.get("final") == "true"
            case "name" | "value" | "final":
                self._text = []
            case "include" if "href" in attributes:
                self._include(attributes["href"])
            case "fallback":
                self._has_fallback = True

    def _end(self, tag: str) -> None:
        text = "".join(self._text or ())
        match _local(tag):
            case "name" if text:
                self._name = text.strip()
            case "value" if text:
                self._value = text
            case "final":
                self._is_final = text == "true"
            case "property" if self._name is not None and (self._missing is not None or not self._has_fallback):
                self._found.add(self._name, self._value, self._is_final)
            case "include":
                if self._missing is not None and not self._has_fallback:
                    raise self._error(f"the file {self._missing} that it includes is missing")
                self._missing, self._has_fallback = None, False
        self._text = None

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _include(self, href: str) -> None:
        scheme = urlsplit(href).scheme
        if scheme not in ("", "file"):
            raise self._error(f"it includes {scheme}:..., and only files are included", "Copy it into a file beside")
        path = self._path.parent / (urlsplit(href).path if scheme else href)
        if self._depth == _MOST_INCLUDES:
            raise self._error(f"more than {_MOST_INCLUDES} files include one another")
        if path.exists():
            _read(path, self._found, self._depth + 1)
        else:
            self._missing = href

    def _entity(self, name: str, *_: object) -> None:
        raise self._error(f"it declares the entity {name}", "Write the text itself in its place")

    def _error(self, message: str, remedy: str = "Put the file right, or unset HADOOP_CONF_DIR") -> StateStoreError:
        return StateStoreError(message, str(self._path), self._parser.CurrentByteIndex, remedy)


def _read(path: Path, found: _Properties, depth: int) -> None:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise StateStoreError(
            f"Hadoop's configuration cannot be read: {error}", str(path), remedy="Give the right to read it"
        ) from error
    if len(content) > _MOST_BYTES:
        raise StateStoreError(f"this is no configuration: it has more than {_MOST_BYTES} bytes", str(path))
    _Parser(path, found, depth).parse(content)


def _local(tag: str) -> str:
    return tag.rpartition(" ")[2]


def _substituted(text: str, properties: Mapping[str, str], name: str) -> str:
    """The text with its variables replaced, as by Configuration.substituteVars: those without a value stay."""
    given = text
    for _ in range(_MOST_SUBSTITUTIONS):
        found = _VARIABLE.search(text)
        if found is None:
            return text
        value = _variable(found[1], properties)
        if value is None:
            return text
        if found[0] in value:
            return given
        text = text[: found.start()] + value + text[found.end() :]
    raise StateStoreError(
        f"the value of {name} needs more than {_MOST_SUBSTITUTIONS} variables",
        remedy="Put Hadoop's configuration right",
    )


def _variable(variable: str, properties: Mapping[str, str]) -> str | None:
    if not variable.startswith("env.") or variable == "env.":
        if variable == "user.name":
            return getpass.getuser()
        return str(Path.home()) if variable == "user.home" else properties.get(variable)
    named = re.fullmatch(r"(?s)(.*?)(?:(:-|-)(.*))?", variable[4:])
    assert named is not None
    value = os.environ.get(named[1])
    if (named[2] == "-" and value is None) or (named[2] == ":-" and not value):
        return named[3]
    return value if value is not None else properties.get(variable)
