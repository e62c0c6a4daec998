"""Runs that a command names, opened: their last state, and what of it is drawn."""

from typing import NamedTuple

import numpy as np

from jaxproto.errors import UserError
from jaxproto.experiment import build
from jaxproto.reporting.figures import arguments
from jaxproto.saved_runs.restore import Opened, load
from jaxproto.summary import pictures
from jaxproto.summary.host_prototypes import HostProtos, Learnt, learnt_by


class Shown(NamedTuple):
    """A run, what it has learnt, and what of it is drawn."""

    run: Opened
    learnt: Learnt
    clients: list[int]
    classes: list[int]

    @property
    def protos(self) -> HostProtos:
        """The global prototypes.

        Raises:
          UserError: there are none.
        """
        return _there(self.learnt.protos, self.run, "global prototypes")

    @property
    def local(self) -> HostProtos:
        """The local prototypes.

        Raises:
          UserError: there are none.
        """
        return _there(self.learnt.local, self.run, "local prototypes")


def _there(protos: HostProtos | None, run: Opened, what: str) -> HostProtos:
    if protos is None:
        raise UserError(
            f"{run.path}: method {run.config.method.name!r} has no {what} to draw. "
            "Leave this run out."
        )
    return protos


def shown(args) -> dict[str, Shown]:
    """The runs of a command by printed name, read one after the other."""
    found = {}
    for name, path in arguments.labelled(args.workdirs).items():
        run = load(path, args.data_dir)
        clients = arguments.chosen(
            getattr(args, "clients", None), len(run.exp.partition.train), "clients"
        )
        classes = arguments.chosen(
            getattr(args, "classes", None), run.exp.spec.num_classes, "classes"
        )
        learnt = learnt_by(run.exp, run.state.server, run.state.clients)
        found[name] = Shown(run, learnt, clients, classes)
    _check_classes(found)
    return found


def _check_classes(found: dict[str, Shown]):
    sizes = {name: one.run.exp.spec.num_classes for name, one in found.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise UserError(
            f"the runs differ in their classes: {told}. Draw runs of one data set."
        )


def only(args) -> tuple[str, Shown]:
    """The single run of a command, and its name."""
    (one,) = shown(args).items()
    return one


def flat(one: Shown) -> Shown:
    """The same run.

    Raises:
      UserError: its features have not two dimensions.
    """
    dim = one.run.exp.spec.feat_dim
    if dim != 2:
        raise UserError(
            f"{one.run.path} has features of {dim} dimensions, and this picture needs "
            "two (model.feat_dim=2, as the preset spiral); tsne draws any."
        )
    return one


def pulled(one: Shown) -> np.ndarray:
    """Global prototypes as clients compare with them."""
    return _there(one.learnt.client_view, one.run, "global prototypes").mean


def trained(one: Shown) -> pictures.Trained:
    """The federation after its last checkpoint."""
    exp, state = one.run.exp, one.run.state
    examples = build.examples(exp.dataset)
    return pictures.Trained(exp, examples, state.server, state.clients)
