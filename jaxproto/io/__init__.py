"""Files: atomic writes, owner-only files, JSON, imports beside a user's file."""
