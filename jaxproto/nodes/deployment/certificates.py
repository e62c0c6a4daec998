"""Certificates of a server, with the authority that signs them, and keys of nodes."""

import contextlib
import datetime
import ipaddress
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.io.owner_only import owner_only_folder
from jaxproto.nodes.deployment.persistent_client import HOST

NAMES = ("localhost", HOST)  # of this machine
DAYS = 30.0  # of validity


class Certificates(NamedTuple):
    """Paths of PEM files."""

    authority: Path  # trusted by nodes
    certificate: Path  # of the server
    key: Path  # private key of the server


def make(
    folder: Path, names: Sequence[str] = NAMES, days: float = DAYS
) -> Certificates:
    """Writes certificates of a server; drops the key of the authority.

    Args:
      names: Names and addresses by which nodes reach the server.
      days: Duration of validity.

    Raises:
      UserError: The folder has certificates.
    """
    owner_only_folder(folder)
    paths = Certificates(*(folder / n for n in ("ca.crt", "server.pem", "server.key")))
    _check_new(paths.authority)
    root, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name, name = _name("jaxproto authority"), _name(names[0])
    ca = _builder(root_name, root_name, root.public_key(), days)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    alternatives = x509.SubjectAlternativeName([*map(_alternative_name, names)])
    builder = _builder(name, root_name, key.public_key(), days)
    builder = builder.add_extension(alternatives, critical=False)
    write = partial(atomic.write, private=True)
    write(paths.authority, _pem(ca.sign(root, hashes.SHA256())))
    write(paths.certificate, _pem(builder.sign(root, hashes.SHA256())))
    key_format = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    write(paths.key, key.private_bytes(serialization.Encoding.PEM, *key_format))
    return paths


def make_node_key(file: Path) -> Path:
    """Writes the private key of a node; returns the file of its public key.

    Raises:
      UserError: The file exists.
    """
    _check_new(file)
    key, public = ec.generate_private_key(ec.SECP384R1()), file.with_suffix(".pub")
    openssh = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    content = key.private_bytes(serialization.Encoding.PEM, *openssh)
    atomic.write(file, content, private=True)
    formats = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    atomic.write(public, key.public_key().public_bytes(*formats))
    return public


def _check_new(file: Path):
    """Raises UserError if a file exists: those who know it would refuse another."""
    if file.exists():
        raise UserError(f"{file} exists; delete it first if all nodes get new ones.")


def _alternative_name(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    builder = builder.public_key(key).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(minutes=5))
    return builder.not_valid_after(now + datetime.timedelta(days=days))
