"""The figures of the papers, drawn of finished runs; `registry.py` lists them.

python -m jaxproto plot --help
python -m jaxproto plot bytes WORKDIR... --out=FILE.pdf
"""
