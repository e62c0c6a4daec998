"""Privacy accounting by Google's dp-accounting (extra `privacy`)."""

import importlib.util

from jaxproto.errors import UserError

HINT = "privacy.unit needs dp-accounting: pip install 'jaxproto[privacy]'."


def check_installed():
    """Raises UserError where dp-accounting is not installed."""
    if importlib.util.find_spec("dp_accounting") is None:
        raise UserError(HINT)


def epsilon_composed(noise: float, times: int, delta: float) -> float:
    """Returns the exact epsilon of several Gaussian mechanisms on one unit's data.

    They compose to one Gaussian mechanism with less noise.

    Args:
      noise: multiplier z; a replaced unit moves a sum by two clipping norms.
      times: number of releases that the unit contributes to.
      delta: of the guarantee (epsilon, delta).
    """
    import dp_accounting

    if not times:
        return 0.0
    return float(dp_accounting.get_epsilon_gaussian(noise / 2 / times**0.5, delta))


def epsilon_subsampled(
    noise: float, rounds: int, delta: float, clients: int, drawn: int
) -> float:
    """Returns epsilon over rounds of sampled clients, by Rényi divergences.

    Wang, Balle, Kasiviswanathan: Subsampled Rényi Differential Privacy and Analytical
    Moments Accountant, AISTATS 2019. The result is at most `epsilon_composed` over all
    rounds. The adversary does not see which clients are drawn.

    Args:
      noise, delta: as in `epsilon_composed`.
      rounds: number of rounds.
      clients: number of clients.
      drawn: number of them that a round draws, without replacement.
    """
    import dp_accounting

    if not rounds:
        return 0.0
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        clients, drawn, dp_accounting.GaussianDpEvent(noise / 2)
    )
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
    epsilon = accountant.compose(event, rounds).get_epsilon(delta)
    return min(float(epsilon), epsilon_composed(noise, rounds, delta))
