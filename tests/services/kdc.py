"""A real Kerberos: Hadoop's MiniKdc, whose jars come from Maven."""

from __future__ import annotations

from pathlib import Path

from tests.services import cache, java
from tests.services.process import ServerProcess

REALM = "EXAMPLE.COM"
NAME_NODE, DATA_NODE, WEB = "nn/localhost", "dn/localhost", "HTTP/localhost"
USER = "ann"
_START_SECONDS = 60
_SETTINGS = """\
org.name=EXAMPLE
org.domain=COM
kdc.bind.address=127.0.0.1
kdc.port=0
instance=DefaultKrbServer
transport=TCP
debug=false
max.ticket.lifetime=86400000
max.renewable.lifetime=604800000
"""


class Kdc:
    """A running key distribution centre with its files in `folder`.

    Attributes:
        krb5_conf: what its clients need to know.
        keytab: the keys of all principals.
        keytab_of_user: those of USER.
    """

    def __init__(self, folder: Path) -> None:
        self._jars = _jars()
        self._folder = folder
        self.krb5_conf = folder / "krb5.conf"
        self.keytab = folder / "keytab"
        self.keytab_of_user = folder / "keytab-of-user"
        self._process: ServerProcess | None = None

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self._folder / "settings"
        settings.write_text(_SETTINGS)
        command = [java.executable(), "-Xmx64m", *java.QUICK_START]
        command += ["-cp", ":".join(map(str, [*self._jars, java.spark_jar("slf4j-api")]))]
        command += ["org.apache.hadoop.minikdc.MiniKdc", str(self._folder), str(settings), str(self.keytab)]
        principals = [USER, NAME_NODE, DATA_NODE, WEB]
        self._process = ServerProcess([*command, *principals], log=self._folder / "kdc.log", talks=True)
        while "<CTRL-C>" not in self._process.read_line(_START_SECONDS):
            pass
        self.keytab_of_user.write_bytes(_entries_of(USER, self.keytab.read_bytes()))

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    @property
    def jvm(self) -> tuple[str, ...]:
        """Options of a JVM that uses it."""
        return (f"-Djava.security.krb5.conf={self.krb5_conf}",)

    def environment(self, *, ticket: bool) -> dict[str, str]:
        """Variables of a process that uses it.

        Args:
            ticket: the process gets a ticket of USER; else it has none.
        """
        variables = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5CCNAME": f"FILE:{self._folder / 'no-tickets'}"}
        if ticket:  # libgssapi gets one by itself
            variables |= {
                "KRB5_CLIENT_KTNAME": f"FILE:{self.keytab_of_user}",
                "KRB5CCNAME": f"FILE:{self._folder / 'tickets'}",
            }
        return variables

    def hdfs_conf(self, protection: str) -> dict[str, str]:
        """Settings of an HDFS that uses it.

        Args:
            protection: of its connections: authentication, integrity or privacy.
        """
        keytab = str(self.keytab)
        return {
            **client_conf(),
            "hadoop.security.authorization": "true",
            "hadoop.rpc.protection": protection,
            "dfs.data.transfer.protection": protection,
            "dfs.block.access.token.enable": "true",
            "ignore.secure.ports.for.testing": "true",  # else DataNodes ask for HTTPS
            "dfs.namenode.keytab.file": keytab,
            "dfs.datanode.keytab.file": keytab,
            "dfs.datanode.kerberos.principal": f"{DATA_NODE}@{REALM}",
            "dfs.web.authentication.kerberos.principal": f"{WEB}@{REALM}",
            "dfs.web.authentication.kerberos.keytab": keytab,
        }


def client_conf() -> dict[str, str]:
    """What a client of such an HDFS needs to know."""
    return {
        "hadoop.security.authentication": "kerberos",
        "dfs.namenode.kerberos.principal": f"{NAME_NODE}@{REALM}",
    }


def _entries_of(principal: str, keytab: bytes) -> bytes:
    """A keytab has 2 bytes of a version, and then entries: int32 size, and so many bytes with the principal's name."""
    name = len(principal).to_bytes(2, "big") + principal.encode()
    kept, at = keytab[:2], 2
    while at < len(keytab):
        end = at + 4 + abs(int.from_bytes(keytab[at : at + 4], "big", signed=True))
        if name in keytab[at:end]:
            kept += keytab[at:end]
        at = end
    return kept


def _jars() -> list[Path]:
    version = java.hadoop_version()
    packages = [f"org.apache.hadoop:hadoop-minikdc:{version}"]
    folder = cache.whole_folder(f"minikdc-{version}", lambda made: java.download(made, packages, ["org.slf4j:*"]))
    return sorted(folder.glob("*.jar"))
