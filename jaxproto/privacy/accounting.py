"""Epsilon of what was released, by Google's dp-accounting (extra `privacy`)."""

import importlib.util
from typing import NamedTuple

from jaxproto.errors import UserError

HINT = "privacy.unit needs dp-accounting: pip install 'jaxproto[privacy]'."


class Sampling(NamedTuple):
    """Clients drawn without replacement each round, unseen by the adversary."""

    clients: int
    drawn: int


def check_installed():
    """Raises UserError where dp-accounting is not installed."""
    if importlib.util.find_spec("dp_accounting") is None:
        raise UserError(HINT)


def epsilon_composed(noise: float, times: int, delta: float) -> float:
    """Epsilon of `times` Gaussian mechanisms: those of one with less noise, exactly.

    Args:
      noise: multiplier z; a replaced unit moves a sum by two clipping norms.
      times: releases that the unit has a part in.
      delta: of (epsilon, delta).
    """
    import dp_accounting

    if not times:
        return 0.0
    return float(dp_accounting.get_epsilon_gaussian(noise / 2 / times**0.5, delta))


def epsilon_subsampled(
    noise: float, rounds: int, delta: float, sampling: Sampling
) -> float:
    """The same of rounds that draw their clients, by Rényi divergences.

    Wang, Balle, Kasiviswanathan: Subsampled Rényi Differential Privacy and Analytical
    Moments Accountant, AISTATS 2019. Not above `epsilon_composed` of a part in every
    round.
    """
    import dp_accounting

    if not rounds:
        return 0.0
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        sampling.clients, sampling.drawn, dp_accounting.GaussianDpEvent(noise / 2)
    )
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
    found = accountant.compose(event, rounds).get_epsilon(delta)
    return min(float(found), epsilon_composed(noise, rounds, delta))
