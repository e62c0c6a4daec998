"""A server accepts what an honest client of every method uploads."""

import jax
import numpy as np
from support import toys
from support.toy_methods import every_method, make

from jaxproto import wire
from jaxproto.nodes.flower import accept


@every_method
def test_uploads_of_a_real_round_are_accepted(name):
    r = toys.run(make(name))
    count_KC = np.asarray(toys.counts(*toys.pool_and_rows(), range(6)))
    sizes_K = count_KC.sum(1)
    limits = accept.Limits(1e6, sizes_K, sizes_K, count_KC, count_KC > 0)
    for report in (r.report, r.pre_upload):
        for k in range(len(report.bytes)):
            one = jax.tree.map(lambda a, k=k: a[k], report.up)
            accept.check_upload(jax.device_get(wire.unpack(one)), limits, k)
