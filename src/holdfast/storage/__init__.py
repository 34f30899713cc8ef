"""File storage: atomic writes, checksums and directory locks. Imports only `errors`."""
