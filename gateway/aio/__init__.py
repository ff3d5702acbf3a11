"""Async tools that know nothing of Dask."""
