"""Writers that log to other programs, and the pictures of a finished run."""
