"""Runs one experiment: python main.py --config=configs/protonorm.py:spiral

--config.method.upscale=10.0 overrides a field. The same command again resumes.
"""

import sys

from jaxproto import cli
from jaxproto.training import signals

if __name__ == "__main__":
    signals.install_signal_handlers()
    cli.call("run", "main.py", sys.argv[1:])
