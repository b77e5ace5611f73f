"""Certificate of a run: workers take code only from processes that can read its folder.

Dask runs the code that its connections deliver. All processes of a run therefore use TLS with one
key, made for this run, and refuse a peer without it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mapper.errors import UsageError
from storage.exchange import rename
from storage.system.processes import user_id

CERTIFICATE, KEY = "certificate.pem", "key.pem"
VALID = timedelta(days=1000)  # longer than any run
CLOCKS = timedelta(days=1)  # difference between the clocks of hosts
ROLES = ("client", "scheduler", "worker")


def make_certificate(folder: Path) -> None:
    """Create a private folder with a key and its self-signed certificate.

    The folder appears with both files: other processes wait for it.
    Raises `OSError` if it exists, or `UsageError` if the file system cannot keep it private.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))  # of mode 0700
    try:
        require_private(made)
        for name, text in ((KEY, secret), (CERTIFICATE, _signed(key).public_bytes(Encoding.PEM))):
            with open(made / name, "xb", opener=_private) as file:
                file.write(text)
        rename(made, folder)
    except (OSError, UsageError):
        shutil.rmtree(made, ignore_errors=True)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """Return the certificate of a key, signed by itself: it is its own authority."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mapper")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - CLOCKS)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def require_private(folder: Path) -> None:
    """Raise `UsageError` if another account owns a folder or can enter it.

    Whoever owns a folder of certificates and the address of a scheduler runs code here.
    """
    found = folder.lstat()
    user = user_id()
    if user is not None and (found.st_mode & 0o077 or found.st_uid != user):
        raise UsageError(
            f"{folder}: other accounts can access the keys of the workers; use a folder on a file "
            "system with permissions, in a folder that only you can write"
        )


def tls_settings(folder: Path) -> dict[str, Any]:
    """Return settings of Dask that require the certificate in a folder for all connections."""
    certificate, key = (str((folder / name).absolute()) for name in (CERTIFICATE, KEY))
    found: dict[str, Any] = {"require-encryption": True, "tls.min-version": 1.3}
    found["tls.ca-file"] = certificate
    for role in ROLES:
        found[f"tls.{role}.cert"], found[f"tls.{role}.key"] = certificate, key
    return {f"distributed.comm.{name}": value for name, value in found.items()}
