"""Traefik as the one public port."""
