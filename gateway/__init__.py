"""Daskfleet's API server: what does not depend on where clusters run."""

__version__ = "0.1.0"
