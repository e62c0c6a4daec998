"""Networks and groups by name, their construction, and PyTorch weights."""

from jaxproto.models.adapters import from_equinox, from_linen, from_nnx
from jaxproto.models.from_torch import (
    fresh_head,
    from_torch,
    given_head,
    is_mapped,
    to_torch,
)
from jaxproto.models.registry import GROUPS, NETS, assign_networks, build, group_members
