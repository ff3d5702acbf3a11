"""Clusters as jobs of a batch system."""
