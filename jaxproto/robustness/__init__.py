"""Hostile clients, and aggregation that withstands them."""

from jaxproto.robustness.attacks import ATTACKS, Attack, attacked
from jaxproto.robustness.centres import CENTRES
from jaxproto.robustness.robust_aggregation import robust
