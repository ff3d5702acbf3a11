"""Async tools that know nothing of Dask: time, queues, backoff, tasks, bounds."""
