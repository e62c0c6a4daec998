"""Released code of ProtoNorm, https://github.com/regulationLee/ProtoNorm.

It is made from HtFLlib, and runs as that does in `htfllib.py`.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.released import htfllib
from benchmarks.released.ours import Start
from benchmarks.released.release import begin as begin

CLASSES = {"protonorm": ("protonorm", "clientProtoNorm", "ProtoNorm", "receive_protos")}
DEFAULTS = {  # of its command line
    "thomson_early_stop": 10,
    "thomson_iteration_number": 500,
    "thomson_learning_rate": 0.1,
    "thomson_momentum": 0.9,
}


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after every round."""
    return htfllib.rounds(
        row,
        start,
        CLASSES,
        **DEFAULTS,
        constant_scale_factor=start.options["upscale"],
        early_iter_log=[],
        prototype_alignment=True,
        prototype_upscaling=True,
    )
