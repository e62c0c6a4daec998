"""Forms of operations by name, and the choices of platforms in `forms.json`.

`python -m benchmarks.accelerator --choose` writes the file on the accelerator itself.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from jaxproto.models.ops import conv, pool

FILE = Path(__file__).with_name("forms.json")
FORMS: Mapping[str, Mapping[str, Callable]] = {  # field of `Ops` -> name -> function
    "conv": {
        "lax": conv.conv_lax,
        "taps": conv.conv_by_tap,
        "matmul": conv.conv_matmul,
    },
    "depthwise": {"lax": conv.depthwise_lax, "shift": conv.depthwise_shift},
    "grouped": {"lax": conv.conv_lax, "matmul": conv.grouped_matmul},
    "max_pool": {"lax": pool.max_pool_lax, "chain": pool.max_pool_chain},
}


def chosen(platform: str, file: Path = FILE) -> dict[str, Callable]:
    """Returns the function of each operation that the file names for a platform."""
    names = json.loads(file.read_text()).get(platform, {}).get("forms", {})
    return {kind: FORMS[kind][name] for kind, name in names.items()}
