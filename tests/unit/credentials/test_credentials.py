"""Certificates are judged by real handshakes of the parties that will meet.

The client's side is the stock client's own context, the others are those of
distributed; the bytes travel in memory.
"""

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID
from dask_gateway.client import GatewaySecurity
from distributed.security import Security

from gateway.credentials import (
    make_credentials,
    make_token,
    needs_renewal,
    renew_client,
)
from gateway.domain.credentials import Credentials, KeyPair

NAME = "c0ffee"
NOW = datetime.now(UTC)  # noqa: TID251 - OpenSSL verifies against the real clock


@pytest.fixture(scope="module")
def ours() -> Credentials:
    return make_credentials(NAME, NOW)


@pytest.fixture(scope="module")
def others() -> Credentials:
    return make_credentials("another", NOW)


def make_client(pair: KeyPair) -> ssl.SSLContext:
    security = GatewaySecurity(tls_key=pair.key, tls_cert=pair.certificate)
    return make_strict(security.get_connection_args("client")["ssl_context"])


def make_party(
    directory: Path, credentials: Credentials, role: str, *, listens: bool
) -> ssl.SSLContext:
    """Return the context of a scheduler or worker that has its role's files."""
    pair: KeyPair = getattr(credentials, role)
    directory.mkdir(exist_ok=True)
    for name, text in (
        ("ca", credentials.ca_certificate),
        ("cert", pair.certificate),
        ("key", pair.key),
    ):
        (directory / name).write_text(text)
    security = Security(
        require_encryption=True,
        tls_ca_file=str(directory / "ca"),
        **{
            f"tls_{role}_cert": str(directory / "cert"),
            f"tls_{role}_key": str(directory / "key"),
        },
    )
    arguments = (
        security.get_listen_args(role)
        if listens
        else security.get_connection_args(role)
    )
    return make_strict(arguments["ssl_context"])


def make_strict(context: ssl.SSLContext) -> ssl.SSLContext:
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13's default
    assert context.verify_mode is ssl.CERT_REQUIRED
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    """Complete a handshake of both and a byte each way; return the client's end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    left = client.wrap_bio(to_client, to_server, server_hostname=f"daskgateway-{NAME}")
    right = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [left.do_handshake, right.do_handshake]
    while waiting:
        for step in list(waiting):
            try:
                step()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(step)
    # In TLS 1.3 the server judges the client's certificate after the client is done.
    right.write(b"x")
    assert left.read(1) == b"x"
    return left


def load(pair: KeyPair) -> tuple[x509.Certificate, x509.Certificate]:
    leaf, ca = x509.load_pem_x509_certificates(pair.certificate.encode())
    return leaf, ca


def test_the_stock_client_connects_to_the_scheduler_under_strict_rules(tmp_path, ours):
    server = make_party(tmp_path, ours, "scheduler", listens=True)

    end = shake_hands(make_client(ours.client), server)

    assert end.version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("caller", "listener"),
    [("worker", "scheduler"), ("scheduler", "worker"), ("worker", "worker")],
)
def test_dask_processes_of_one_cluster_connect_to_each_other(
    tmp_path, ours, caller, listener
):
    client = make_party(tmp_path / "caller", ours, caller, listens=False)
    server = make_party(tmp_path / "listener", ours, listener, listens=True)

    shake_hands(client, server)


def test_an_outside_worker_may_join_and_be_reached_with_the_clients_leaf(
    tmp_path, ours
):
    as_worker = replace(ours, worker=ours.client)

    shake_hands(
        make_party(tmp_path / "a", as_worker, "worker", listens=False),
        make_party(tmp_path / "b", ours, "scheduler", listens=True),
    )
    shake_hands(
        make_party(tmp_path / "c", ours, "scheduler", listens=False),
        make_party(tmp_path / "d", as_worker, "worker", listens=True),
    )


@pytest.mark.parametrize("role", ["client", "scheduler", "worker"])
@pytest.mark.parametrize("listener", ["scheduler", "worker"])
def test_w31_no_leaf_of_another_cluster_is_let_in(
    tmp_path, ours, others, role, listener
):
    """The intruder trusts our CA, so that only the server can refuse."""
    intruder = replace(ours, **{listener: getattr(others, role)})
    client = make_party(tmp_path / "client", intruder, listener, listens=False)
    server = make_party(tmp_path / "server", ours, listener, listens=True)

    with pytest.raises(ssl.SSLError):
        shake_hands(client, server)


def test_the_client_refuses_the_scheduler_of_another_cluster(tmp_path, ours, others):
    posing = replace(others, ca_certificate=ours.ca_certificate)
    server = make_party(tmp_path, posing, "scheduler", listens=True)

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(make_client(ours.client), server)


def test_a_caller_without_a_certificate_is_refused(tmp_path, ours):
    bare = ssl.create_default_context(cadata=ours.ca_certificate)
    bare.check_hostname = False
    server = make_party(tmp_path, ours, "scheduler", listens=True)

    with pytest.raises(ssl.SSLError):
        shake_hands(bare, server)


def test_plaintext_is_refused(tmp_path, ours):
    server = make_party(tmp_path, ours, "scheduler", listens=True)
    incoming = ssl.MemoryBIO()
    incoming.write(b'{"op": "identity"}' * 10)

    with pytest.raises(ssl.SSLError):
        server.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()


def test_extensions_are_what_strict_verification_asks_for(ours):
    leaf, ca = load(ours.worker)

    def find(certificate, oid):
        return certificate.extensions.get_extension_for_oid(oid)

    constraints = find(ca, ExtensionOID.BASIC_CONSTRAINTS)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    usage = find(ca, ExtensionOID.KEY_USAGE)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert usage.value.crl_sign
    assert not usage.value.digital_signature

    constraints = find(leaf, ExtensionOID.BASIC_CONSTRAINTS)
    assert constraints.critical
    assert not constraints.value.ca
    usage = find(leaf, ExtensionOID.KEY_USAGE)
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    assert set(find(leaf, ExtensionOID.EXTENDED_KEY_USAGE).value) == {
        ExtendedKeyUsageOID.CLIENT_AUTH,
        ExtendedKeyUsageOID.SERVER_AUTH,
    }
    issuer = find(leaf, ExtensionOID.AUTHORITY_KEY_IDENTIFIER).value.key_identifier
    assert issuer == find(ca, ExtensionOID.SUBJECT_KEY_IDENTIFIER).value.digest
    names = find(leaf, ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    assert set(names.get_values_for_type(x509.DNSName)) == {
        NAME,
        f"daskgateway-{NAME}",
        "dask-internal",
    }


def test_each_role_has_a_leaf_and_a_key_of_its_own(ours):
    pairs = (ours.client, ours.scheduler, ours.worker)

    assert len({pair.key for pair in pairs} | {ours.ca_key}) == 4
    certificates = [load(pair)[0] for pair in pairs] + [load(ours.client)[1]]
    assert len({one.serial_number for one in certificates}) == 4


@pytest.mark.parametrize(
    ("role", "want_days"), [("client", 365), ("scheduler", 3650), ("worker", 3650)]
)
def test_validity_begins_five_minutes_ago_and_ends_by_role(ours, role, want_days):
    leaf, ca = load(getattr(ours, role))

    want_start = (NOW - timedelta(minutes=5)).replace(microsecond=0)
    assert leaf.not_valid_before_utc == want_start
    assert ca.not_valid_before_utc == want_start
    want_end = (NOW + timedelta(days=want_days)).replace(microsecond=0)
    assert leaf.not_valid_after_utc == want_end


@pytest.mark.parametrize(
    ("days", "want"), [(0, False), (334, False), (335, True), (365, True), (900, True)]
)
def test_renewal_is_due_thirty_days_before_the_clients_end(ours, days, want):
    assert needs_renewal(ours, NOW + timedelta(days=days)) is want


def test_a_renewed_client_is_trusted_by_the_scheduler_that_runs(tmp_path, ours):
    server = make_party(tmp_path, ours, "scheduler", listens=True)

    renewed = renew_client(ours, NAME, NOW + timedelta(hours=1) - timedelta(hours=1))

    shake_hands(make_client(renewed.client), server)
    shake_hands(make_client(ours.client), server)
    assert renewed.client != ours.client
    assert replace(renewed, client=ours.client) == ours


def test_a_renewed_client_ends_with_the_authority_at_the_latest(ours):
    renewed = renew_client(ours, NAME, NOW + timedelta(days=3600))

    leaf, ca = load(renewed.client)
    assert leaf.not_valid_after_utc == ca.not_valid_after_utc


def test_tokens_are_long_unlike_and_safe_in_headers_and_files():
    tokens = {make_token() for _ in range(100)}

    assert len(tokens) == 100
    for token in tokens:
        assert len(token) >= 43
        assert token.isascii()
        assert token.isalnum()


def test_the_longest_cluster_name_fits():
    credentials = make_credentials("c" * 51, NOW)

    leaf, _ = load(credentials.client)
    assert "c" * 51 in leaf.subject.rfc4514_string()


def test_nothing_secret_shows_in_the_repr(ours):
    text = repr(ours)

    assert "PRIVATE" not in text
    assert ours.token not in text
