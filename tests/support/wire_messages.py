"""A message with every kind of field."""

import numpy as np

from jaxproto.core.types import Protos, Top


def every_kind(seed=0):
    """Every kind of field; row 1 of the prototypes is absent."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(4, 7)).astype(np.float32)
    count = np.asarray([2.0, 0.0, 1.0, 5.0], np.float32)
    return {
        "hidden": Protos(mean, count),
        "shown": Protos(mean * 1e3, count, True),
        "top": Top(mean.ravel(), np.arange(28) % 5 == 0),
        "array": mean * 1e-3,
        "scalar": mean[0, 0],
        "bits": mean > 0,
        "number": np.arange(3, dtype=np.int32),
    }
