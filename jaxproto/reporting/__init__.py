"""Shows finished runs: tables, figures, HTML pages and analyses of settings."""

from jaxproto.storage import packed_runs as packed_runs  # registers its finder
