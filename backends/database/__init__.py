"""Clusters kept in a database: store, plan and reconcile, whatever launches them."""
