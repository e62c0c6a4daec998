"""Runs that a command names: their last state, and the clients and classes to draw."""

from typing import NamedTuple

from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.lab import leave_out
from jaxproto.lab.figures import arguments
from jaxproto.lab.saved_runs.restore import RestoredRun, load
from jaxproto.summary.host_prototypes import (
    HostProtos,
    LearntPrototypes,
    learnt_prototypes,
)
from jaxproto.training.client_store import Clients


class SelectedRun(NamedTuple):
    """A run, its prototypes, and the clients and classes to draw."""

    run: RestoredRun
    learnt: LearntPrototypes
    clients: list[int]
    classes: list[int]

    @property
    def trained(self) -> tuple[Experiment, Clients]:
        """The experiment, and the clients after its last checkpoint."""
        return self.run.exp, self.run.state.clients

    @property
    def protos(self) -> HostProtos:
        """The global prototypes; UserError if there are none."""
        return self._require(self.learnt.protos, "global prototypes")

    @property
    def viewed(self) -> HostProtos:
        """The global prototypes as clients compare with them; or UserError."""
        return self._require(self.learnt.client_view, "global prototypes")

    @property
    def local(self) -> HostProtos:
        """The local prototypes; UserError if there are none."""
        return self._require(self.learnt.local, "local prototypes")

    def _require(self, protos: HostProtos | None, what: str) -> HostProtos:
        if protos is None:
            name = self.run.config.method.name
            raise UserError(
                f"{self.run.path}: method {name!r} has no {what} to draw. Leave this "
                "run out."
            )
        return protos


def selected_runs(args) -> dict[str, SelectedRun]:
    """Returns the runs of a command by printed name, read one after the other."""

    def select(path):
        run = load(path, args.data_dir)
        clients = arguments.select(
            getattr(args, "clients", None), len(run.exp.partition.train), "clients"
        )
        classes = arguments.select(
            getattr(args, "classes", None), run.exp.spec.num_classes, "classes"
        )
        learnt = learnt_prototypes(run.exp, run.state.server, run.state.clients)
        return named[path], SelectedRun(run, learnt, clients, classes)

    named = {path: name for name, path in arguments.by_label(args.workdirs).items()}
    runs = dict(leave_out.read_all(named, select))
    sizes = {name: pick.run.exp.spec.num_classes for name, pick in runs.items()}
    if len(set(sizes.values())) > 1:
        numbers = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise UserError(
            f"the runs differ in their classes: {numbers}. Draw runs of one data set."
        )
    return runs


def single_run(args) -> tuple[str, SelectedRun]:
    """Returns the name of the single run of a command, and the run."""
    (pair,) = selected_runs(args).items()
    return pair


def require_2d(pick: SelectedRun):
    """Raises UserError unless the features of a run have two dimensions."""
    dim = pick.run.exp.spec.feat_dim
    if dim != 2:
        raise UserError(
            f"{pick.run.path} has features of {dim} dimensions, and this picture needs "
            "two (model.feat_dim=2, as the preset spiral); tsne draws any."
        )
