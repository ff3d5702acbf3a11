"""Daskfleet: its configuration, its filled database, its scale request."""


class Ours:
    name = "Daskfleet"
