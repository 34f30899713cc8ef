"""How data files are read: archives, IDX, images, arrays."""
