"""Certificates of one machine, with the authority that signs them."""

import datetime
import ipaddress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from jaxproto.contrib.flower_deployment.persistent_client import HOST
from jaxproto.io import atomic

DAYS = 30  # of validity


class Certificates(NamedTuple):
    """Paths of PEM files."""

    authority: Path  # trusted by nodes
    certificate: Path  # of the server
    key: Path  # private key of the server


def make(folder: Path) -> Certificates:
    """Writes certificates for the loopback address; drops the key of the authority."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = Certificates(*(folder / n for n in ("ca.crt", "server.pem", "server.key")))
    root, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name, name = _name("jaxproto authority"), _name("localhost")
    ca = _builder(root_name, root_name, root.public_key())
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    address = x509.IPAddress(ipaddress.ip_address(HOST))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), address])
    builder = _builder(name, root_name, key.public_key()).add_extension(names, False)
    write = partial(atomic.write, private=True)
    write(paths.authority, _pem(ca.sign(root, hashes.SHA256())))
    write(paths.certificate, _pem(builder.sign(root, hashes.SHA256())))
    key_format = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    write(paths.key, key.private_bytes(serialization.Encoding.PEM, *key_format))
    return paths


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    builder = builder.public_key(key).serial_number(x509.random_serial_number())
    before = builder.not_valid_before(now - datetime.timedelta(minutes=5))
    return before.not_valid_after(now + datetime.timedelta(days=DAYS))
