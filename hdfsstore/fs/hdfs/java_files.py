"""What libhdfs does not do, in the JVM that it has started.

libhdfs has only the old rename, which never overwrites and does not say why it fails; pyarrow's move deletes the target
when that rename fails, for whatever reason. libhdfs tells times in seconds, in which a file may be written twice;
pyarrow's get_file_info says NotFound for any error. So FileSystem.rename(Path, Path, Options.Rename...) and
getFileStatus(Path) are called through JNI: a table of functions, whose places are fixed by the Java Native Interface
Specification, chapter 4.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyarrow.fs import FileInfo, FileType

from hdfsstore.fs.hdfs.client import NO_DATANODE, HdfsError

_OK = 0
_VERSION = 0x00010008
_REFERENCES = 32
_HADOOP = "org/apache/hadoop"
# The outcome is unknown, or another NameNode is asked next time. Hadoop keeps the class of a socket's exception when it
# adds the addresses.
_MAY_PASS = {
    "BlockMissingException",
    "ConnectException",
    "ConnectTimeoutException",
    "EOFException",
    "NoRouteToHostException",
    "RetriableException",
    "SafeModeException",
    "SocketException",
    "SocketTimeoutException",
    "StandbyException",
}
# What Hadoop makes of an exception of another class, such as those that older JVMs throw when a connection breaks.
_BROKEN = re.compile(
    r"Failed on local exception: java\."
    r"(io\.IOException: (Broken pipe|Connection reset|Connection timed out)|nio\.channels\.)"
    # The DataNodes of a block.
    r"|All datanodes .* are bad"
)
_PATH, _CONF, _OPTION = f"{_HADOOP}/fs/Path", f"{_HADOOP}/conf/Configuration", f"{_HADOOP}/fs/Options$Rename"
_FILES, _STATUS = f"{_HADOOP}/fs/FileSystem", f"{_HADOOP}/fs/FileStatus"
# What toString() of an exception begins with; RemoteException has the NameNode's exception in parentheses.
_EXCEPTION = re.compile(r"(?:[\w.$]*\.RemoteException\()?(?:[\w$]+\.)*(?P<kind>[\w$]+)\)?:?\s*(?P<message>.*)")

_pointer = ctypes.c_void_p
# By what the signature of a method ends with: the place of the function that calls it, and what that returns.
_RETURNS = {
    ";": (36, _pointer),
    "Z": (39, ctypes.c_uint8),
    "J": (54, ctypes.c_int64),
    "V": (63, None),
}


class JavaFiles:
    """Hadoop's FileSystem object of an HDFS. libhdfs has started the JVM already.

    Any number of threads may call its methods.
    """

    def __init__(self, url: str, conf: Mapping[str, str], user: str | None) -> None:
        self._vm = _created_vm()
        with self._calls() as java:
            settings = java.new(_CONF, "()V")
            for name, value in conf.items():
                java.call(
                    settings, _CONF, "set", "(Ljava/lang/String;Ljava/lang/String;)V", java.text(name), java.text(value)
                )
            uri = java.call_static("java/net/URI", "create", "(Ljava/lang/String;)Ljava/net/URI;", java.text(url))
            parameters = f"Ljava/net/URI;L{_CONF};{'Ljava/lang/String;' if user else ''}"
            who = (java.text(user),) if user else ()
            # `get` would give the one that was made first for the URI, whatever its settings were.
            files = java.call_static(_FILES, "newInstance", f"({parameters})L{_FILES};", uri, settings, *who)
            self._files = java.keep(files)

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Raises FileNotFoundError, FileExistsError or HdfsError."""
        with self._calls() as java:
            paths = [java.new(_PATH, "(Ljava/lang/String;)V", java.text(path)) for path in (source, target)]
            options = java.array_of(_OPTION, java.constant(_OPTION, "OVERWRITE" if overwrite else "NONE"))
            java.call(self._files, _FILES, "rename", f"(L{_PATH};L{_PATH};[L{_OPTION};)V", *paths, options)

    def info(self, path: str) -> FileInfo:
        """What is known of a path. Raises FileNotFoundError or HdfsError."""
        with self._calls() as java:
            of_java = java.new(_PATH, "(Ljava/lang/String;)V", java.text(path))
            status = java.call(self._files, _FILES, "getFileStatus", f"(L{_PATH};)L{_STATUS};", of_java)
            modified_ms = java.call(status, _STATUS, "getModificationTime", "()J")
            if java.call(status, _STATUS, "isDirectory", "()Z"):
                return FileInfo(path, FileType.Directory, mtime_ns=modified_ms * 1_000_000)
            size = java.call(status, _STATUS, "getLen", "()J")
            return FileInfo(path, FileType.File, size=size, mtime_ns=modified_ms * 1_000_000)

    @contextmanager
    def _calls(self) -> Iterator[_Java]:
        """The JVM for this thread, which it knows for the time of the block at least."""
        environment = _environment(self._vm)
        was_known = bool(environment)
        if not was_known:
            attach = _function(self._vm, 7, ctypes.c_int, _pointer, _pointer)
            if attach(self._vm, ctypes.byref(environment), None) != _OK:
                raise HdfsError("libhdfs", "the JVM does not take a further thread", may_pass=False)
        java = _Java(environment)
        try:
            java.begin()
            try:
                yield java
            finally:
                java.end()
        finally:
            if not was_known:
                _function(self._vm, 5, ctypes.c_int)(self._vm)


class _Java:
    """The functions of JNI for one thread. Those that run code of Java raise its exceptions as errors of Python."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment

    def begin(self) -> None:
        if self._jni(19, ctypes.c_int, ctypes.c_int)(_REFERENCES) != _OK:
            self._jni(17, None)()
            raise HdfsError("OutOfMemoryError", "the JVM has no room for a further call", may_pass=False)

    def end(self) -> None:
        self._jni(20, _pointer, _pointer)(None)

    def text(self, text: str) -> Any:
        # UTF-16: the UTF-8 of JNI is another one, without four bytes, and it ends at a zero.
        units = text.encode("utf-16-le" if sys.byteorder == "little" else "utf-16-be", "surrogatepass")
        return self._checked(self._jni(163, _pointer, ctypes.c_char_p, ctypes.c_int)(units, len(units) // 2))

    def new(self, name: str, signature: str, *arguments: Any) -> Any:
        made = self.find(name)
        constructor = self._method(33, made, "<init>", signature)
        return self._checked(self._jni(30, _pointer, _pointer, _pointer, _pointer)(made, constructor, _list(arguments)))

    def call(self, target: Any, name: str, method: str, signature: str, *arguments: Any) -> Any:
        found = self._method(33, self.find(name), method, signature)
        number, kind = _RETURNS[signature[-1]]
        function = self._jni(number, kind, _pointer, _pointer, _pointer)
        return self._checked(function(target, found, _list(arguments)))

    def call_static(self, name: str, method: str, signature: str, *arguments: Any) -> Any:
        owner = self.find(name)
        found = self._method(113, owner, method, signature)
        return self._checked(self._jni(116, _pointer, _pointer, _pointer, _pointer)(owner, found, _list(arguments)))

    def constant(self, name: str, constant: str) -> Any:
        """The constant of an enum."""
        owner = self.find(name)
        field = self._method(144, owner, constant, f"L{name};")
        return self._checked(self._jni(145, _pointer, _pointer, _pointer)(owner, field))

    def array_of(self, name: str, element: Any) -> Any:
        make = self._jni(172, _pointer, ctypes.c_int, _pointer, _pointer)
        return self._checked(make(1, self.find(name), element))

    def keep(self, reference: Any) -> Any:
        """A reference that other threads may use, and that is never given back."""
        return self._checked(self._jni(21, _pointer, _pointer)(reference))

    def find(self, name: str) -> Any:
        """A class."""
        return self._checked(self._jni(6, _pointer, ctypes.c_char_p)(name.encode()))

    def _method(self, number: int, owner: Any, name: str, signature: str) -> Any:
        find = self._jni(number, _pointer, _pointer, ctypes.c_char_p, ctypes.c_char_p)
        return self._checked(find(owner, name.encode(), signature.encode()))

    def _checked(self, result: Any) -> Any:
        exception = self._jni(15, _pointer)()
        if exception:
            self._jni(17, None)()
            raise error_of(self._said(exception))
        return result

    def _said(self, exception: Any) -> str:
        text = self.call(exception, "java/lang/Object", "toString", "()Ljava/lang/String;")
        characters = self._jni(169, _pointer, _pointer, _pointer)(text, None) if text else None
        if not characters:
            self._jni(17, None)()
            return "Exception"
        said = ctypes.string_at(characters).decode(errors="replace")
        self._jni(170, None, _pointer, _pointer)(text, characters)
        return said

    def _jni(self, number: int, result: Any, *arguments: Any) -> Any:
        function = _function(self._environment, number, result, *arguments)
        return lambda *given: function(self._environment, *given)


def error_of(said: str) -> Exception:
    """The error for an exception of Java, by what its toString() says."""
    match = _EXCEPTION.match(said.partition("\n")[0])
    kind, message = (match["kind"], match["message"]) if match else ("Exception", said)
    if kind == "FileNotFoundException":
        return FileNotFoundError(message)
    if kind == "FileAlreadyExistsException":
        return FileExistsError(message)
    may_pass = kind in _MAY_PASS or NO_DATANODE in message or _BROKEN.search(message) is not None
    return HdfsError(kind, message, may_pass=may_pass)


def is_ready() -> bool:
    """Whether a call of libhdfs has got as far as Hadoop in this thread: the JVM knows it, and has Hadoop's classes."""
    vm = _vm()
    environment = None if vm is None else _environment(vm)
    if not environment:
        return False
    java = _Java(environment)
    try:
        java.begin()
        try:
            java.find(_FILES)
        finally:
            java.end()
    except HdfsError:
        return False
    return True


def _created_vm() -> Any:
    vm = _vm()
    if vm is None:
        raise HdfsError("libhdfs", "there is no JVM in the process", may_pass=False)
    return vm


def _vm() -> Any:
    vm, number = _pointer(), ctypes.c_int()
    # Already loaded, and found by its name.
    ctypes.CDLL("libjvm.so").JNI_GetCreatedJavaVMs(ctypes.byref(vm), 1, ctypes.byref(number))
    return vm if number.value else None


def _environment(vm: Any) -> Any:
    """The JVM for this thread; null if it does not know the thread."""
    environment = _pointer()
    _function(vm, 6, ctypes.c_int, _pointer, ctypes.c_int)(vm, ctypes.byref(environment), _VERSION)
    return environment


def _function(table: Any, number: int, result: Any, *arguments: Any) -> Any:
    """The function at a place of a table, to which the first argument points as well."""
    functions = ctypes.cast(table, ctypes.POINTER(ctypes.POINTER(_pointer)))[0]
    return ctypes.CFUNCTYPE(result, _pointer, *arguments)(functions[number])


def _list(arguments: tuple[Any, ...]) -> Any:
    return (ctypes.c_void_p * max(1, len(arguments)))(*arguments)
