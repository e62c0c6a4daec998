"""The figures of the papers, drawn of finished runs; `registry.py` lists them."""
