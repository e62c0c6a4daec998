"""Hostile clients, and aggregation that withstands them."""

from jaxproto.wrappers.robustness.attacks import ATTACKS, Attack, attacked
from jaxproto.wrappers.robustness.centres import CENTRES
from jaxproto.wrappers.robustness.robust_aggregation import robust
