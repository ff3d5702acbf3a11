"""Where clusters run: one folder per backend, and what they share."""
