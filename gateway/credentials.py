"""Make the TLS certificates and the token of one cluster.

Every cluster has a certificate authority of its own and one leaf for each role,
so that a certificate of another cluster is worth nothing here. Where they are
kept and who gets which file is decided elsewhere. All of it blocks for about
a millisecond per key: call it in a thread.

Notes
-----
Python 3.13 sets ``VERIFY_X509_STRICT``: without critical ``basicConstraints``
and ``keyUsage`` and both key identifiers a client of that version never
connects. Every leaf may be client and server at once, since Dask's processes
are both, and a worker that a user starts outside joins with the client's leaf.
"""

import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gateway.domain.credentials import Credentials, KeyPair
from gateway.domain.errors import InvariantError
from gateway.domain.names import format_sni

# Clocks of clients and nodes that run behind ours.
BACKDATE: Final = timedelta(minutes=5)
# Longer than any cluster: a running scheduler never reads its files again.
DASK_LIFETIME: Final = timedelta(days=3650)
CLIENT_LIFETIME: Final = timedelta(days=365)
# A month in which the store may be away or nobody asks for the cluster.
RENEW_BEFORE: Final = timedelta(days=30)

# The peer's certificates carry it; a client may ask for it by name.
_INTERNAL_NAME: Final = "dask-internal"
_ORGANIZATION: Final = "daskfleet"

_Extension = tuple[x509.ExtensionType, bool]


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)


def make_credentials(cluster_name: str, now: datetime) -> Credentials:
    """Make an authority, a leaf for each role and a token for one cluster.

    Parameters
    ----------
    cluster_name
        A valid name, see `gateway.domain.names`.
    now
        Current time, timezone-aware. Certificates begin `BACKDATE` earlier.
    """
    ca = _make_authority(cluster_name, now)
    return Credentials(
        ca_certificate=_format_certificate(ca.certificate),
        ca_key=_format_key(ca.key),
        client=_make_leaf(ca, cluster_name, "client", _client_validity(ca, now)),
        scheduler=_make_leaf(ca, cluster_name, "scheduler", _validity(ca)),
        worker=_make_leaf(ca, cluster_name, "worker", _validity(ca)),
        token=make_token(),
    )


def renew_client(
    credentials: Credentials, cluster_name: str, now: datetime
) -> Credentials:
    """Return ``credentials`` with a new client leaf, signed by the same authority.

    Processes that run go on trusting it; the old leaf stays valid until its end.
    """
    key = serialization.load_pem_private_key(credentials.ca_key.encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvariantError(f"the authority of cluster {cluster_name} has no EC key")
    ca = _Authority(
        x509.load_pem_x509_certificate(credentials.ca_certificate.encode()), key
    )
    client = _make_leaf(ca, cluster_name, "client", _client_validity(ca, now))
    return replace(credentials, client=client)


def needs_renewal(credentials: Credentials, now: datetime) -> bool:
    """Return whether the client's leaf ends within `RENEW_BEFORE` of ``now``."""
    leaf = x509.load_pem_x509_certificate(credentials.client.certificate.encode())
    return leaf.not_valid_after_utc - now <= RENEW_BEFORE


def make_token() -> str:
    """Return 256 random bits as text that has no ``/`` and no newline.

    Notes
    -----
    The stock preload takes a value with ``/`` for the path of a file.
    """
    return secrets.token_hex(32)


def _validity(ca: _Authority) -> tuple[datetime, datetime]:
    certificate = ca.certificate
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _client_validity(ca: _Authority, now: datetime) -> tuple[datetime, datetime]:
    earliest, latest = _validity(ca)
    return max(now - BACKDATE, earliest), min(now + CLIENT_LIFETIME, latest)


def _make_authority(cluster_name: str, now: datetime) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    subject = _build_name(cluster_name, "authority")
    extensions: list[_Extension] = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_build_key_usage(signs_certificates=True), True),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + DASK_LIFETIME)
    )
    return _Authority(_sign(builder, extensions, key), key)


def _make_leaf(
    ca: _Authority, cluster_name: str, role: str, validity: tuple[datetime, datetime]
) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    names = (cluster_name, format_sni(cluster_name), _INTERNAL_NAME)
    extensions: list[_Extension] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_build_key_usage(signs_certificates=False), True),
        (
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            False,
        ),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
        (
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()),
            False,
        ),
        (x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False),
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_build_name(cluster_name, role))
        .issuer_name(ca.certificate.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity[0])
        .not_valid_after(validity[1])
    )
    leaf = _sign(builder, extensions, ca.key)
    return KeyPair(
        certificate=_format_certificate(leaf) + _format_certificate(ca.certificate),
        key=_format_key(key),
    )


def _sign(
    builder: x509.CertificateBuilder,
    extensions: list[_Extension],
    key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, hashes.SHA256())


def _build_name(cluster_name: str, role: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
            x509.NameAttribute(NameOID.COMMON_NAME, cluster_name),
        ]
    )


def _build_key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _format_certificate(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _format_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
