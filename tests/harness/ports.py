"""Free ports of this machine, or of this world."""

import random
import socket

# Below the range from which the kernel takes ports of outgoing connections: one of
# those must not sit on a service's port while a test restarts the service.
_LOWEST, _HIGHEST = 20000, 32000


def find_port(address: str = "127.0.0.1") -> int:
    """Return a port that is free now."""
    while True:
        port = random.SystemRandom().randint(_LOWEST, _HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
