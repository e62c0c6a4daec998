"""Shows what a configuration's data look like, without training.

python -m jaxproto.data.inspect --config=configs/protonorm.py:digits [--all] [--out=DIR]

The flags are those of `main.py`; `inspection.py` does the work.
"""

if __name__ == "__main__":
    from jaxproto.report import inspection

    inspection.start()
