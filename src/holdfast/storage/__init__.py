"""Files on disk: written whole or not at all, with checksums, behind a lock. Imports only `errors`."""
