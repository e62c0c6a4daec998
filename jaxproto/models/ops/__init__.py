"""Operations whose best form depends on the platform, and those with one form."""

from jaxproto.models.ops.channel_sums import at_least_single
from jaxproto.models.ops.norm import with_batch, with_stats
from jaxproto.models.ops.ops import Ops, ops_for, ops_in
from jaxproto.models.ops.pool import channel_pool, global_mean
