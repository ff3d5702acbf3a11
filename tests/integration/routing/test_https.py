"""HTTPS, dashboards and Dask traffic on one port of a real Traefik."""

import asyncio
import os
import ssl
from collections.abc import MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from backends.database.routes import Route
from gateway.aio.clock import SystemClock
from gateway.credentials import make_credentials
from tests.support.eventually import eventually
from tests.support.traefik import (
    Scheduler,
    Upstream,
    address_of,
    client_context,
    request_raw,
    running,
    say,
    traefik,
)

pytestmark = pytest.mark.integration


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a self-signed certificate for localhost; return it and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = SystemClock().now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    paths = folder / "site.crt", folder / "site.key"
    folder.mkdir(exist_ok=True)
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].touch(mode=0o600)
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


async def read_common_name(address: tuple[str, int]) -> str:
    anybody = ssl._create_unverified_context()  # noqa: S323 - to look at it
    _, writer = await asyncio.open_connection(
        *address, ssl=anybody, server_hostname="localhost"
    )
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    subject = x509.load_der_x509_certificate(der).subject
    return subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value


async def test_the_api_dashboards_and_dask_traffic_share_an_https_port(
    tmp_path: Path,
) -> None:
    certificate, key = make_certificate(tmp_path, "first")
    credentials = make_credentials("a", SystemClock().now())
    scheduler = Scheduler(credentials, tmp_path)
    api, a = Upstream("api"), Upstream("a")
    trusting = ssl.create_default_context(cafile=certificate)
    async with (
        running(api, a, scheduler),
        traefik(
            tmp_path,
            gateway_urls=(api.url,),
            tls_cert=certificate,
            tls_key=key,
        ) as routes,
    ):
        await routes.publish([Route("a", "127.0.0.1", scheduler.port, a.port)])
        await eventually(
            lambda: routes.prove("a", credentials.ca_certificate), within=60
        )
        base = f"https://localhost:{address_of(routes)[1]}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{base}/api/version", ssl=trusting) as answer:
                seen = await answer.json()
            async with session.get(
                f"{base}/clusters/a/status", ssl=trusting
            ) as refused:
                pass
        client = client_context(credentials, tmp_path)

        assert seen["headers"]["x-forwarded-proto"] == "https"
        assert refused.status == 401
        assert api.asked[0]["X-Forwarded-Proto"] == "https"
        assert await say(routes, "a", client, "hello") == "hello"


async def test_plain_http_on_the_https_port_is_sent_on(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "first")
    async with traefik(tmp_path, tls_cert=certificate, tls_key=key) as routes:
        address = "{}:{}".format(*address_of(routes))
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                f"http://{address}/api/version?x=1", allow_redirects=False
            ) as answer,
        ):
            assert answer.status in {302, 307}
            assert answer.headers["Location"] == f"https://{address}/api/version?x=1"
        assert (await request_raw(routes, "/clusters/a/"))[0] in {302, 307}


async def test_a_renewed_certificate_is_shown_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.routing.routes._CERTIFICATE_PERIOD_S", 0.1)
    certificate, key = make_certificate(tmp_path, "first")
    async with traefik(tmp_path, tls_cert=certificate, tls_key=key) as routes:
        pid, address = routes.pid, address_of(routes)
        assert await read_common_name(address) == "first"
        make_certificate(tmp_path, "second")
        os.utime(certificate)

        async def renewed() -> bool:
            return await read_common_name(address) == "second"

        await eventually(renewed, within=60)
        assert routes.pid == pid


async def test_a_certificate_without_its_key_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.routing.routes._CERTIFICATE_PERIOD_S", 0.1)
    certificate, key = make_certificate(tmp_path, "first")
    with capture_logs() as logs:
        async with traefik(tmp_path, tls_cert=certificate, tls_key=key) as routes:
            address = address_of(routes)
            make_certificate(tmp_path / "new", "second")
            new_key = (tmp_path / "new" / "site.key").read_bytes()
            certificate.write_bytes((tmp_path / "new" / "site.crt").read_bytes())
            await eventually(lambda: _count(logs, "certificate not taken over"))
            # Away for a moment, as while a tool replaces it.
            key.unlink()
            await eventually(lambda: _count(logs, "certificate not taken over") > 1)
            assert await read_common_name(address) == "first"
            key.write_bytes(new_key)

            async def renewed() -> bool:
                return await read_common_name(address) == "second"

            await eventually(renewed, within=60)
            assert _count(logs, "certificate taken over") == 1


async def test_a_certificate_renewed_while_no_gateway_ran_is_shown_by_an_adopted_proxy(
    tmp_path: Path,
) -> None:
    certificate, key = make_certificate(tmp_path, "first")
    async with traefik(tmp_path, tls_cert=certificate, tls_key=key) as routes:
        pid, address = routes.pid, address_of(routes)
        await routes.cleanup()
        make_certificate(tmp_path, "second")
        assert await read_common_name(address) == "first"
        await routes.setup()

        async def renewed() -> bool:
            return await read_common_name(address) == "second"

        await eventually(renewed, within=60)
        assert routes.pid == pid


def _count(logs: list[MutableMapping[str, Any]], event: str) -> int:
    return sum(line["event"] == event for line in logs)
