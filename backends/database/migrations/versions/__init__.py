"""One module per version; a released one is never changed."""
