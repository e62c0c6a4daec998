"""Operations whose best form depends on the platform, and those with one form."""

from jaxproto.nn.norm import batch_norm, update_stats, with_batch, with_stats
from jaxproto.nn.ops import Ops, ops_for
from jaxproto.nn.pool import channel_pool, global_mean
from jaxproto.nn.reduce import at_least_single

__all__ = [
    "Ops",
    "at_least_single",
    "batch_norm",
    "channel_pool",
    "global_mean",
    "ops_for",
    "update_stats",
    "with_batch",
    "with_stats",
]
