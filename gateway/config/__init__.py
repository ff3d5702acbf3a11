"""The operator's settings, and how they become domain values."""
