"""One file per dataset, and the two kinds of data a user brings."""
