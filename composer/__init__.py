"""Reproducible composer of OCI images for patched inference fleets."""

__version__ = "0.1.0"
