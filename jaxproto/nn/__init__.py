"""Operations whose best form depends on the platform, and those with one form."""

from jaxproto.nn.norm import batch_norm, update_stats, with_stats
from jaxproto.nn.ops import Ops, ops_for
from jaxproto.nn.pool import channel_pool, global_mean

__all__ = [
    "Ops",
    "batch_norm",
    "channel_pool",
    "global_mean",
    "ops_for",
    "update_stats",
    "with_stats",
]
