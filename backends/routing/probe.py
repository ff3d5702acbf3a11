"""Proof that a cluster answers: a TLS handshake verified by its own CA.

Nothing is sent after the handshake. Traefik completes one for any name, with
its default certificate, so that a mere connection proves nothing.
"""

import asyncio
import ssl
from typing import Final

from gateway.domain.errors import InvariantError

_RECORD_HANDSHAKE: Final = 22
_RECORD_HEADER: Final = 5
# Messages of a client that only follow the server's certificate: its own
# certificate and its key share (RFC 5246, 7.4).
_AFTER_VERIFICATION: Final = frozenset({11, 16})
_CHUNK: Final = 16384


async def prove_tls(
    host: str, port: int, *, server_name: str, ca_certificate: str, timeout_s: float
) -> bool:
    """Return whether ``host:port`` shows a certificate of exactly this CA.

    Host names are not compared: Dask's certificates have none. The server
    may want a certificate of us; it is verified before we lack one.

    Parameters
    ----------
    host, port
        Where to connect.
    server_name
        Sent as SNI.
    ca_certificate
        PEM; the only one that is trusted.
    timeout_s
        For all of it. False once it is over, as for any failure of the network.

    Raises
    ------
    InvariantError
        If ``ca_certificate`` is no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(cadata=ca_certificate)
    except (ssl.SSLError, ValueError) as error:
        raise InvariantError("the cluster's CA is no PEM certificate") from error
    try:
        async with asyncio.timeout(timeout_s):
            return await _connect(host, port, context, server_name)
    except (OSError, TimeoutError, UnicodeError):
        # ssl.SSLError is an OSError; a host that IDNA refuses a UnicodeError.
        return False


async def _connect(
    host: str, port: int, context: ssl.SSLContext, server_name: str
) -> bool:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        return await _handshake(reader, writer, context, server_name)
    finally:
        # No goodbye: the peer may never take it.
        writer.transport.abort()


async def _handshake(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    context: ssl.SSLContext,
    server_name: str,
) -> bool:
    """Drive the handshake by hand, to see how far a refused one had come."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=server_name)
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            flight = outgoing.read()
            # TLS 1.2 waits for the server's word on our lack of a certificate.
            if _follows_verification(flight):
                return True
            writer.write(flight)
            await writer.drain()
            received = await reader.read(_CHUNK)
            if not received:
                return False
            incoming.write(received)
        else:
            return True


def _follows_verification(flight: bytes) -> bool:
    """Return whether a client's TLS 1.2 flight was sent to a verified server."""
    return (
        len(flight) > _RECORD_HEADER
        and flight[0] == _RECORD_HANDSHAKE
        and flight[_RECORD_HEADER] in _AFTER_VERIFICATION
    )
