"""Start the threads that the clients' modules keep for the whole process.

They belong to no test, so they must be there before the first one is watched.
"""

import threading

import distributed.utils
from dask_gateway.comm import GatewayConnector


def start_client_threads() -> None:
    """Make the executors of ``dask_gateway`` and ``distributed`` start all threads."""
    for executor in (GatewayConnector._executor, distributed.utils._offload_executor):
        number = executor._max_workers
        together = threading.Barrier(number)
        for future in [executor.submit(together.wait, 10) for _ in range(number)]:
            future.result(20)
