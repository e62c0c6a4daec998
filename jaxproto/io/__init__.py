"""Files: atomic writes, owner-only files, JSON, imports of files of the user."""
