"""Readers for data files: archives, IDX, images, arrays."""
