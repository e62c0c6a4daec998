"""Settings of all tests."""

import os

os.environ.setdefault("JAXPROTO_CACHE", "off")  # tests leave the user's cache alone
