"""The controller: what is observed, planned by `planning`, carried out, and told.

`app` runs it; `reconciler` is one round of one cluster; `observer` reads caches and
`memory`, `executor` writes. `server` answers probes and metrics, `relay` gives the
API server what only a controller may read: live logs and events of pods.
"""
