"""Sources of the files of a named dataset: cache, folder, packages, download."""
