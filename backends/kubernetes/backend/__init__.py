"""The API server on Kubernetes: `DaskCluster` objects in its own namespace."""
