"""One file per network of the papers."""
