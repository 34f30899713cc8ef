"""One file a command; each imports what it needs inside its functions, so that its help answers at once."""
