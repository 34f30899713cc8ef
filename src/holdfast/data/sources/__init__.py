"""Where the files of a named dataset come from: cache, folder, packages, download."""
