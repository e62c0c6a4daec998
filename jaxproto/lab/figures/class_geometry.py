"""Distances between global prototypes, and between classes of clients' heads."""

import numpy as np

from jaxproto.errors import UserError
from jaxproto.lab import plots
from jaxproto.lab.callbacks import pictures
from jaxproto.lab.figures import selected_runs
from jaxproto.lab.plots.curve_bands import around
from jaxproto.lab.saved_runs.restore import RestoredRun
from jaxproto.summary.host_prototypes import HostProtos, head_norms


def angles(args):
    """Draws angles between the global prototypes."""
    name, pick = selected_runs.single_run(args)
    dim = pick.run.exp.spec.feat_dim
    pictures.angles(args.out, pick.protos, dim, name, pick.classes)


def cosine_by_class(args):
    """Draws mean, least and largest cosine to the other classes (CPS Figure 2)."""
    runs = selected_runs.selected_runs(args)
    rows = {name: similarity(pick.protos) for name, pick in runs.items()}
    plots.cosine_by_class(args.out, rows, next(iter(runs.values())).classes)


def similarity(protos: HostProtos) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns mean, least and largest cosine [C] to other classes; nan without any."""
    cosine_CC = plots.cosines(protos.mean)
    return around(np.where(pairs(protos.count > 0), cosine_CC, np.nan).T)


def pairs(here_C: np.ndarray) -> np.ndarray:
    """Returns a mask [C, C] of the pairs of two different classes that are there."""
    return here_C[:, None] & here_C & ~np.eye(len(here_C), dtype=bool)


def margins(args):
    """Draws margins of the global prototypes by class (ProtoNorm Figure 5)."""
    runs = selected_runs.selected_runs(args)
    rows = {name: margin(pick.protos) for name, pick in runs.items()}
    plots.margins(args.out, rows, next(iter(runs.values())).classes)


def margin(protos: HostProtos) -> np.ndarray:
    """Returns distances [C] to the nearest class as shares of the largest one.

    nan where a class has no prototype, or no other has one (ProtoNorm Section 6.1,
    following FedTGP).
    """
    mean_CD = np.asarray(protos.mean, float)
    distance_CC = np.linalg.norm(mean_CD[:, None] - mean_CD, axis=-1)
    _, least_C, _ = around(np.where(pairs(protos.count > 0), distance_CC, np.nan).T)
    largest = np.nanmax(least_C, initial=0.0)
    return least_C / largest if largest > 0 else least_C


SCALES = {"client": 1, "class": 0}  # owner of a minimum and maximum -> axis


def class_weight_norms(args):
    """Draws norms of class weights beside the data of up to two runs (CPS Figure 3)."""
    runs = selected_runs.selected_runs(args)
    if len(runs) > 2:
        raise UserError("norms of class weights are drawn of one or two runs.")
    first, *rest = runs.values()
    count_KC = first.run.exp.counts.train
    norms = {name: _norms(pick.run) for name, pick in runs.items()}
    if not all(np.array_equal(count_KC, r.run.exp.counts.train) for r in rest):
        raise UserError(
            "the two runs have different partitions, so their difference says nothing "
            "of their methods; give runs of the same data and clients."
        )
    shown = {"clients": first.clients, "classes": first.classes}
    plots.head_norms(args.out, norms, count_KC, axis=SCALES[args.scale_by], **shown)


def _norms(run: RestoredRun) -> np.ndarray:
    norms = head_norms(run.exp.cohorts, run.state.clients)
    if norms is None:
        raise UserError(f"{run.path}: its clients have no linear head to draw.")
    return norms
