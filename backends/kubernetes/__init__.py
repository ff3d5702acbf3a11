"""The Kubernetes backend: ``DaskCluster`` objects, and a controller for them."""
