"""Released code of TinyProto, https://github.com/regulationLee/TinyProto.

It is made from HtFLlib, and runs as that does in `htfllib.py`, with jaxproto's masks.
Three lines are corrected: without that, the server does not find the client, clients
with masks have no pull, and the server aggregates one class.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks.released import htfllib, release, workload
from benchmarks.released.ours import Start
from jaxproto.core.types import Spec
from jaxproto.prototypes.masks import MASKS, mask_indices

CLASSES = dict.fromkeys(
    ("tinyproto", "tinyproto_aps"),
    ("tinyfp", "clientTinyFP", "TinyFP", "receive_protos"),
)
CORRECTIONS = {
    "clientePBFL": "clientTinyFP",
    f"\n{24 * ' '}loss +=": f"\n{20 * ' '}loss +=",  # in the branch without masks
    f"\n{8 * ' '}return agg_": f"\n{4 * ' '}return agg_",  # in the loop over classes
}


def begin(source: Path):
    """Makes the modules importable, without drawings."""
    release.begin(source)
    sys.modules["seaborn"] = ModuleType("seaborn")


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after every round."""
    options, spec = start.options, Spec(workload.CLASSES, workload.DIM)
    masks = MASKS[options["masks"]]
    index_CS = mask_indices(masks, spec, options["s"], options["mask_seed"])
    return htfllib.rounds(
        row,
        start,
        CLASSES,
        corrected,
        add_cps=options["masks"] != "none",
        calc_proto_distance=lambda *_, **__: None,  # for records, left out
        constant_scale_factor=options["mu"],
        mask_idx_dict={c: [index_S] for c, index_S in enumerate(index_CS.astype(int))},
        simple_scale=True,
    )


def corrected(name: str) -> ModuleType:
    """Loads a module anew, with the corrections."""
    spec = importlib.util.find_spec(name)
    text = Path(spec.origin).read_text()
    for released, meant in CORRECTIONS.items():
        text = text.replace(released, meant)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    exec(text, vars(module))
    return module
