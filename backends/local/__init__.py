"""Clusters as processes of this machine."""
