"""The public port's certificate is renewed while clusters run."""

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import ClientConnectionError

from tests.harness.pki import write_serving_files
from tests.support.eventually import eventually
from tests.support.rest import Rest, calling
from tests.support.stack import Stack, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


async def test_a_certificate_of_another_issuer_cuts_no_scheduler_off(tmp_path: Path):
    """Renewed under a running gateway, and again while none runs."""
    folder = tmp_path / "tls"
    folder.mkdir()
    files = write_serving_files(folder, ["127.0.0.1"])
    extra = f"""
c.Proxy.tls_cert = {str(files.certificate)!r}
c.Proxy.tls_key = {str(files.key)!r}
"""
    # Whoever vouched for the first one vouches for none of the others.
    with running_stack(tmp_path, extra, authority=files.authority) as stack:
        # Past the port that is renewed: only the scheduler depends on it.
        async with calling(f"http://127.0.0.1:{stack.private}") as rest:
            name = await rest.create()
            await _scale(rest, name, 1)

            shown = await _show(stack)
            write_serving_files(folder, ["127.0.0.1"])
            await eventually(lambda: _is_new(stack, shown), within=60)
            await _scale(rest, name, 2)
            assert _failures(tmp_path) == 1

            shown = await _show(stack)
            await asyncio.to_thread(stack.kill)
            write_serving_files(folder, ["127.0.0.1"])
            stack.spawn()
            await eventually(lambda: _is_new(stack, shown), within=90)
            await _scale(rest, name, 1)
            assert _failures(tmp_path) >= 2

            await rest.stop(name)
            await eventually(lambda: not stack.jobs(), within=60)


async def _scale(rest: Rest, name: str, count: int) -> None:
    """Scale, and wait until the scheduler has heard of it and reported back."""

    async def is_accepted() -> bool:
        try:
            await rest.scale(name, count)
        except ClientConnectionError:  # it has just been started
            return False
        return True

    async def is_so() -> bool:
        running = await rest.count_workers(name)
        draining = await rest.count_workers(name, "Draining")
        return (running, draining) == (count, 0)

    await eventually(is_accepted)
    await eventually(is_so, within=120)


async def _show(stack: Stack) -> bytes:
    """Return the certificate that the public port shows."""
    anybody = ssl._create_unverified_context()  # noqa: S323 - to look at it
    _, writer = await asyncio.open_connection("127.0.0.1", stack.port, ssl=anybody)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    assert isinstance(der, bytes)
    return der


async def _is_new(stack: Stack, old: bytes) -> bool:
    return await _show(stack) != old


def _failures(folder: Path) -> int:
    """Count how often a scheduler has met a certificate that it did not trust."""
    logs = folder.rglob("scheduler/output.log*")
    return sum(log.read_text().count("CERTIFICATE_VERIFY_FAILED") for log in logs)
