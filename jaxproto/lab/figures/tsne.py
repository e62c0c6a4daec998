"""Test features and prototypes by t-SNE."""

from collections.abc import Sequence

import numpy as np

from jaxproto.errors import UserError
from jaxproto.lab import plots
from jaxproto.lab.callbacks import pictures
from jaxproto.lab.figures import selected_runs
from jaxproto.lab.figures.selected_runs import SelectedRun
from jaxproto.summary.host_prototypes import HostProtos

SEED = 0  # of the choice of samples and of t-SNE


def tsne(args):
    """Draws test features and prototypes by t-SNE (RefProtoFL Figure 2)."""
    if args.samples < 1 or not args.perplexity > 0:
        raise UserError(
            f"--samples is {args.samples} and --perplexity {args.perplexity:g}: give "
            "1 or more samples, and a perplexity above 0."
        )
    rows, perplexities = [], []
    for name, pick in selected_runs.selected_runs(args).items():
        parts = _points(pick, args.samples)
        place, perplexity = embed(
            np.concatenate([p for p, _ in parts]), args.perplexity
        )
        ends = np.cumsum([len(p) for p, _ in parts])[:-1]
        placed = zip(np.split(place, ends), [y for _, y in parts], strict=True)
        rows.append(plots.Embedded(name, *[a for pair in placed for a in pair]))
        perplexities.append(f"{perplexity:.3g}")
    values = ", ".join(dict.fromkeys(perplexities))
    note = (
        f"Test samples: at most {args.samples} of each class and client, drawn at "
        f"random, seed {SEED}. scikit-learn's TSNE of samples and prototypes together, "
        f"from principal components, perplexity {values}, seed {SEED}."
    )
    plots.embedding(args.out, rows, pick.run.exp.spec.num_classes, note)


def embed(x_ND: np.ndarray, perplexity: float) -> tuple[np.ndarray, float]:
    """Returns points [N, 2] by t-SNE, and the perplexity: at most (N - 1) / 3."""
    from sklearn.manifold import TSNE  # imported here, as it takes a second

    perplexity = min(perplexity, (len(x_ND) - 1) / 3)
    model = TSNE(2, perplexity=perplexity, init="pca", random_state=SEED)
    return model.fit_transform(np.asarray(x_ND, np.float32)), perplexity


def _points(pick: SelectedRun, limit: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns features, local and global prototypes, each with their classes."""
    exp, classes, parts = pick.run.exp, pick.classes, []
    for i in pick.clients:
        rows = exp.partition.test[i]
        rows = rows[sample(exp.dataset.y[rows], classes, limit, i)]
        parts += [pictures.features(*pick.trained, i, rows)] if len(rows) else []
    if not parts:
        raise UserError("these clients have no test sample of these classes.")
    feat, label = zip(*parts, strict=True)
    samples = np.concatenate(feat), np.concatenate(label)
    local, learnt = _local(pick), pick.learnt.protos
    k, c = np.nonzero(local.count[:, classes] > 0)
    remembered = local.mean[:, classes][k, c], np.array(classes)[c]
    dim = samples[0].shape[1]
    known = []
    if learnt is not None and learnt.mean.shape[1] == dim:
        known = [c for c in classes if learnt.count[c] > 0]
    server = pick.viewed.mean[known] if known else np.zeros((0, dim))
    return [samples, remembered, (server, np.array(known, int))]


def sample(y_M: np.ndarray, classes: Sequence[int], limit: int, client: int):
    """Returns positions of at most `limit` examples of each class, at random."""
    order = np.random.default_rng([SEED, client]).permutation(len(y_M))
    chosen = [order[y_M[order] == c][:limit] for c in classes]
    return np.concatenate(chosen)


def _local(pick: SelectedRun) -> HostProtos:
    """Returns local prototypes [K, C, D] of the chosen clients.

    They are those that clients remember, or class means over their training examples if
    clients remember none.
    """
    if pick.learnt.local is not None:
        return HostProtos(pick.local.mean[pick.clients], pick.local.count[pick.clients])
    means, counts = [], []
    for i in pick.clients:
        x, y = pictures.features(*pick.trained, i, pick.run.exp.partition.train[i])
        count_C = np.bincount(y, minlength=pick.run.exp.spec.num_classes)
        sum_CD = np.zeros((len(count_C), x.shape[1]))
        np.add.at(sum_CD, y, x)
        means.append(sum_CD / np.maximum(count_C, 1)[:, None])
        counts.append(count_C)
    return HostProtos(np.stack(means), np.stack(counts))
