"""Write running clusters into the peer's database, in the peer's environment.

Rows go through the peer's own table, encryption and configuration class. One key
pair serves all, because the peer's RSA keys would take minutes; what a row holds
is of the usual size. Plan on standard input, JSON.
"""

import json
import sys
import uuid

import traitlets.config
from dask_gateway_server.backends import db_base
from dask_gateway_server.backends.base import ClusterConfig
from dask_gateway_server.tls import new_keypair
from dask_gateway_server.utils import timestamp


def fill(url: str, encrypt_key: str, clusters: list[dict[str, str]]) -> None:
    key = db_base._normalize_encrypt_key(encrypt_key)  # noqa: SLF001 - as its server does
    store = db_base.DataManager(url=url, encrypt_keys=[key])
    tls = store.encode_tls_credentials(*new_keypair(uuid.uuid4().hex))
    config = ClusterConfig(config=traitlets.config.Config()).to_dict()
    rows = [
        {
            "name": cluster["name"],
            "username": cluster["owner"],
            "status": db_base.JobStatus.RUNNING,
            "target": db_base.JobStatus.RUNNING,
            "count": 0,
            "options": {"workers": 4, "profile": "small"},
            "config": config,
            "state": {"pid": 1},
            "token": store.encode_token(cluster["token"]),
            "scheduler_address": "tls://127.0.0.1:9",
            "dashboard_address": "http://127.0.0.1:9",
            "api_address": "http://127.0.0.1:9",
            "tls_credentials": tls,
            "start_time": timestamp(),
        }
        for cluster in clusters
    ]
    with store.db.begin() as connection:
        connection.execute(db_base.clusters.insert(), rows)


if __name__ == "__main__":
    fill(**json.load(sys.stdin))
