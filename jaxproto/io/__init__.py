"""Files: atomic writes, owner-only files, JSON."""
