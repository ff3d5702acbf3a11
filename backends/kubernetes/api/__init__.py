"""Calls to the API server: plain JSON over HTTPS, watched lists, the leader's lease.

Others call:

* `client.KubeClient.connect(...)`: one per process; it asks for `resources`;
* `errors`: what it raises; expected answers are values instead;
* `informer.Informer`: one kind in one scope, kept current, as slim values;
* `lease.Lease`: who leads, and whether that still holds right now.
"""
