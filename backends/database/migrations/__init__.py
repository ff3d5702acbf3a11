"""Versions of the tables, in order, for Alembic."""
