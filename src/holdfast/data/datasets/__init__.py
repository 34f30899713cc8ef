"""One file per named dataset, and loaders for user data (image folders and `.npz` files)."""
