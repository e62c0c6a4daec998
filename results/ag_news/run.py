"""TinyProto's Table 3 (AG News, fastText and TextCNN), shortened, with Local.

    python -m results.ag_news.run OUT DATA_DIR [WORD...]

DATA_DIR has a folder ag_news with train.csv and test.csv. Arguments: results/series.py.
"""

import sys
from pathlib import Path

from results import series

ROUNDS = 10  # of the paper's 300
CELLS = {"local": "local", "tinyproto_ft": "tinyproto", "fedtgp": "fedtgp"}


def runs():
    """Yields name, configuration and flags of every run."""
    short = [f"--config.rounds={ROUNDS}", "--config.eval_every=2"]
    short += ["--config.data.name=csv:ag_news"]  # in DATA_DIR
    for name, config in CELLS.items():
        variant = ",ft" if name == "tinyproto_ft" else ""
        yield f"{name}-0", f"{config}.py:ag_news{variant}", short


if __name__ == "__main__":
    series.make(runs(), sys.argv[1:], Path(__file__).parent / "records")
