"""Certificates in files, as settings name them."""

from pathlib import Path

import trustme


def write_certificates(folder: Path, ca: trustme.CA) -> Path:
    """Write `ca.pem`, `client.pem` and `client.key`, those of another CA as `other-…`, and none."""
    for authority, before in ((ca, ""), (trustme.CA(), "other-")):
        client = authority.issue_cert("worker.example.com")
        authority.cert_pem.write_to_path(str(folder / f"{before}ca.pem"))
        client.private_key_pem.write_to_path(str(folder / f"{before}client.key"))
        client.cert_chain_pems[0].write_to_path(str(folder / f"{before}client.pem"))
    (folder / "empty.pem").touch()
    return folder


def write_pair(folder: Path, name: str, certificate: trustme.LeafCert) -> None:
    """Write a server's `NAME.pem` and `NAME.key`."""
    certificate.private_key_pem.write_to_path(str(folder / f"{name}.key"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
