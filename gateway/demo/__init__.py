"""``daskfleet demo``: from nothing to a computation, with progress and reasons."""
