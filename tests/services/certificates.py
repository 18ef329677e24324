"""A certificate for 127.0.0.1 and DOMAIN, of a certificate authority that nobody else knows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.services import java
from tests.services.missing import ServiceMissingError

CA = "ca.crt"
DOMAIN = "storage.invalid"  # nobody but a proxy of the tests knows where it is
_EXTENSIONS = f"subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:{DOMAIN},DNS:*.{DOMAIN}\nauthorityKeyIdentifier=keyid\n"


def make_certificates(folder: Path) -> None:
    """Fills a folder with `ca.crt`, and with `public.crt` and `private.key` of the server, where MinIO looks for them.

    Raises:
        ServiceMissingError: there is no openssl.
    """
    if shutil.which("openssl") is None:
        raise ServiceMissingError("The tests of TLS need openssl on PATH")
    folder.mkdir(parents=True)
    (folder / "extensions").write_text(_EXTENSIONS)
    new_key = "-newkey rsa:2048 -nodes"
    authority = "-subj /CN=hdfsstore -addext keyUsage=keyCertSign,cRLSign"
    for command in (
        f"req -x509 {new_key} -keyout ca.key -out {CA} -days 7 {authority}",
        f"req {new_key} -keyout private.key -out request -subj /CN=127.0.0.1",
        f"x509 -req -in request -CA {CA} -CAkey ca.key -CAcreateserial -out public.crt -days 7 -extfile extensions",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)


def make_trust_store(store: Path, ca_file: Path) -> None:
    """Makes a file that a JVM takes as javax.net.ssl.trustStore."""
    keytool = Path(java.executable()).with_name("keytool")
    kind = "-importcert -noprompt -alias ca -storetype JKS -storepass changeit"
    subprocess.run(
        [keytool, *kind.split(), "-file", ca_file, "-keystore", store],
        check=True,
        capture_output=True,
    )
