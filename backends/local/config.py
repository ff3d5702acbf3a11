"""Configuration of one cluster on this machine."""

from traitlets import Unicode

from gateway.config.cluster import ClusterConfig


class LocalClusterConfig(ClusterConfig):
    """Settings of each cluster whose processes run on the gateway's machine."""

    python = Unicode(
        help="""
        Python whose environment schedulers and workers run in; it needs
        `distributed`. Has no effect where `scheduler_cmd` or `worker_cmd` is set.

        By default the gateway's own.
        """,
    ).tag(config=True)

    working_directory = Unicode(
        help="""
        Directory in which schedulers and workers start.

        By default each has one of its own, which is removed with the cluster.
        """,
    ).tag(config=True)
