"""TLS material and token of one cluster, as values that do not print themselves."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its private key, both PEM text.

    Parameters
    ----------
    certificate
        The leaf first, then the CA that signed it: in the stock client one
        file is both its certificate and its trust store.
    key
        PKCS#8, unencrypted.
    """

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """All secrets of one cluster.

    Parameters
    ----------
    ca_certificate
        PEM of the cluster's own CA.
    ca_key
        PEM; needed only to sign again. Never leaves the store.
    client, scheduler, worker
        One leaf per role, so that one can be told from another.
    token
        What the scheduler shows to the API; no ``/`` in it, no newline.
    """

    ca_certificate: str
    ca_key: str = field(repr=False)
    client: KeyPair
    scheduler: KeyPair
    worker: KeyPair
    token: str = field(repr=False)
