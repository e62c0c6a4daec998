"""Partitions with skew of quantity or of features.

Li, Diao, Chen, He, "Federated Learning on Non-IID Data Silos: An Experimental Study",
ICDE 2022, https://arxiv.org/abs/2102.02079, section 4 (their code: Xtra-Computing/
NIID-Bench).

Deviations:
  code: quantity skew draws without limit until every client has 10 examples. Here: the
    minimum is an argument, and after `max_tries` draws clients are topped up, as in
    `dirichlet`.
  paper: real-world feature imbalance gives writers to parties "randomly and equally".
    Here: the same; with fewer sources than clients, the clients of a source share it
    equally.
  paper: noise-based feature imbalance adds noise to images. Not here: it changes
    examples, so it is a data set of its own (save one with its domains).
"""

from collections.abc import Callable

import numpy as np

from jaxproto.data.partitions.label_skew import (
    Rng,
    Scheme,
    check_owners,
    draw_enough,
    rows_by_class,
)

Shares = Callable[[int, Rng], np.ndarray]  # clients, rng -> shares [K]


def quantity_skew(alpha: float, *, min_size: int = 2, max_tries: int = 100) -> Scheme:
    """Shuffles all examples and cuts them into shares drawn from Dirichlet(alpha).

    Sizes are uneven; labels are alike up to chance (section 4.3 of the paper).

    Args:
      alpha: concentration, small values give uneven sizes; 0.5 in the paper, where it
        is called beta.
      min_size, max_tries: as in `dirichlet`.
    """
    return uneven_sizes(
        lambda clients, rng: rng.dirichlet(np.full(clients, alpha)), min_size, max_tries
    )


def lognormal_sizes(sigma: float, *, min_size: int = 2, max_tries: int = 100) -> Scheme:
    """Shuffles all examples and cuts them into log-normal sizes.

    Sizes are uneven with a long tail; labels are alike up to chance.

    Args:
      sigma: standard deviation of the sizes' logarithms; 0 makes sizes equal.
      min_size, max_tries: as in `dirichlet`.
    """

    def shares(clients, rng):
        size_K = rng.lognormal(sigma=sigma, size=clients)
        return size_K / size_K.sum()

    return uneven_sizes(shares, min_size, max_tries)


def uneven_sizes(shares: Shares, min_size: int, max_tries: int) -> Scheme:
    """Shuffles all examples and cuts them into the shares [K] that `shares` draws."""

    def assign(y_N, num_classes, clients, rng):
        def draw():
            end_K = np.rint(np.cumsum(shares(clients, rng)) * len(y_N)).astype(int)
            return np.diff(end_K[:-1], prepend=0, append=len(y_N))[:, None]

        size_K = draw_enough(draw, min_size, max_tries)[:, 0]
        return np.split(rng.permutation(len(y_N)), np.cumsum(size_K)[:-1])

    return Scheme(assign, least=min_size, field="data.min_size")


def by_domain() -> Scheme:
    """Gives each client equally many whole sources, such as writers or cameras.

    Numbers of sources per client differ by at most one. With fewer sources than
    clients, every client has one source, and the clients of a source share it equally.
    Numbers of clients per source then differ by at most one.
    """

    def assign(domain_N, num_domains, clients, rng):
        rows = rows_by_class(domain_N, num_domains)
        present = rng.permutation([d for d in range(num_domains) if len(rows[d])])
        client_rows = [[] for _ in range(clients)]
        for i, d in enumerate(present):
            owners = range(i % clients, clients, len(present))
            advice = "Use fewer clients, or leave this source out."
            check_owners(f"source {d}", len(rows[d]), len(owners), advice)
            parts = np.array_split(rng.permutation(rows[d]), len(owners))
            for owner, part in zip(owners, parts, strict=True):
                client_rows[owner].append(part)
        return [np.concatenate(parts) for parts in client_rows]

    return Scheme(assign, by_source=True)
