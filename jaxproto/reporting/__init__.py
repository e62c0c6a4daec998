"""Shows finished runs: tables, figures, HTML pages and analyses of settings."""
