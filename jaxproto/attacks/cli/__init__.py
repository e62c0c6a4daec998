"""Commands of attacks on finished runs."""
