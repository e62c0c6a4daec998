"""Pictures of what runs have learnt, from their last checkpoints."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import plots
from jaxproto.config import build
from jaxproto.errors import UserError
from jaxproto.figures import finished, selection
from jaxproto.figures.finished import Finished
from jaxproto.report import pictures
from jaxproto.report.pictures import HostProtos, Learnt


class Shown(NamedTuple):
    """A run, what it has learnt, and what of it is drawn."""

    run: Finished
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


def _there(protos: HostProtos | None, run: Finished, what: str) -> HostProtos:
    if protos is None:
        raise UserError(
            f"{run.path}: method {run.config.method.name!r} has no {what} to draw. "
            "Leave this run out."
        )
    return protos


def shown(args) -> dict[str, Shown]:
    """The runs of a command by name, read one after the other."""
    found = {}
    for name, path in selection.named(args.workdirs).items():
        run = finished.load(path, args.data_dir)
        clients = selection.chosen(
            getattr(args, "clients", None), len(run.exp.partition.train), "clients"
        )
        classes = selection.chosen(
            getattr(args, "classes", None), run.exp.spec.num_classes, "classes"
        )
        learnt = pictures.learnt_by(run.exp, run.state.server, run.state.clients)
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


def only(args) -> Shown:
    """The single run of a command."""
    (one,) = shown(args).values()
    return one


def global_prototypes(args):
    """Values of the global prototypes (TinyProto Figure 2 c, d)."""
    one = only(args)
    value_CD = pictures.rows_of(one.protos)[one.classes]
    dim = one.run.exp.spec.feat_dim
    notes = [one.run.path.resolve().name, pictures.note_of(one.protos, dim)]
    title = ", ".join(filter(None, ["global prototypes", *notes]))
    more = {"rows": one.classes, "what": "class", "binary": args.binary}
    plots.prototype_heatmap(args.out, value_CD, title, **more)


def local_prototypes(args):
    """A class's local prototypes, and the global one G (TinyProto Figure 2 a, b)."""
    one = only(args)
    if len(one.classes) > 1 and args.classes is not None:
        raise UserError("local prototypes are drawn of one class: give --classes 2.")
    held_C = (one.local.count > 0).sum(0)
    c = one.classes[0] if args.classes is not None else int(held_C.argmax())
    value_KD = pictures.rows_of(one.local)[one.clients, c]
    mask_D = pictures.mask_of(one.learnt.mask_CD, c, value_KD.shape[1])
    rows = [f"L{i}" for i in one.clients]
    if one.learnt.protos is not None and one.protos.mean.shape[1] == len(value_KD[0]):
        value_KD = np.concatenate([value_KD, pictures.rows_of(one.protos)[c][None]])
        rows.append("G")
    title = pictures.held(one.local, c)
    more = {"rows": rows, "what": "prototype", "binary": args.binary}
    plots.prototype_heatmap(args.out, value_KD, title, mask_D, **more)


def angles(args):
    """Angles between the global prototypes."""
    one = only(args)
    chosen = one.protos.mean[one.classes], one.protos.count[one.classes]
    plots.prototype_angles(args.out, *chosen, one.classes)


def cosine(args):
    """Cosine similarity between the global prototypes, all pairs."""
    one = only(args)
    note = pictures.note_of(one.protos, one.run.exp.spec.feat_dim)
    chosen = one.protos.mean[one.classes], one.protos.count[one.classes]
    plots.cosine_similarity(args.out, *chosen, note, one.classes)


def cosine_by_class(args):
    """Mean, least and largest cosine similarity to the other classes (CPS Figure 2)."""
    found = shown(args)
    rows = {name: similarity(one.protos) for name, one in found.items()}
    plots.cosine_by_class(args.out, rows, next(iter(found.values())).classes)


def similarity(protos: HostProtos) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, least and largest over the other classes [C]; nan where there are none."""
    cos_CC = plots.cosines(protos.mean)
    here_C = protos.count > 0
    pair_CC = here_C[:, None] & here_C & ~np.eye(len(here_C), dtype=bool)
    some_C, value_CC = pair_CC.any(1), np.where(pair_CC, cos_CC, np.nan)
    mean_C, least_C, most_C = np.full((3, len(here_C)), np.nan)
    mean_C[some_C] = np.nanmean(value_CC[some_C], axis=1)
    least_C[some_C] = np.nanmin(value_CC[some_C], axis=1)
    most_C[some_C] = np.nanmax(value_CC[some_C], axis=1)
    return mean_C, least_C, most_C


def margins(args):
    """Margins of the global prototypes by class (ProtoNorm Figure 5)."""
    found = shown(args)
    rows = {name: margin(one.protos) for name, one in found.items()}
    plots.margins(args.out, rows, next(iter(found.values())).classes)


def margin(protos: HostProtos) -> np.ndarray:
    """Distance [C] to the nearest other class as a share of the largest such distance.

    nan where a class has no prototype, or no other has one (ProtoNorm Section 6.1,
    following FedTGP).
    """
    mean_CD = np.asarray(protos.mean, float)
    away_CC = np.linalg.norm(mean_CD[:, None] - mean_CD, axis=-1)
    here_C = protos.count > 0
    pair_CC = here_C[:, None] & here_C & ~np.eye(len(here_C), dtype=bool)
    least_C = np.where(pair_CC, away_CC, np.inf).min(1)
    least_C = np.where(np.isfinite(least_C), least_C, np.nan)
    largest = np.nanmax(least_C, initial=0.0)
    return least_C / largest if largest > 0 else least_C


def heads(args):
    """Norms of class weights beside the data, of one run or two (CPS Figure 3)."""
    found = shown(args)
    if len(found) > 2:
        raise UserError("norms of class weights are drawn of one or two runs.")
    one, *rest = found.values()
    count_KC = one.run.exp.counts.train
    norms = {name: _norms(each.run) for name, each in found.items()}
    names = {"clients": one.clients, "classes": one.classes}
    if not rest:
        (norm_KC,) = norms.values()
        plots.head_norms(args.out, norm_KC, count_KC, **names)
        return
    if not np.array_equal(count_KC, rest[0].run.exp.counts.train):
        raise UserError(
            "the two runs have different partitions, so their difference says nothing "
            "of their methods; give runs of the same data and clients."
        )
    plots.head_norm_difference(args.out, norms, count_KC, **names)


def _norms(run: Finished) -> np.ndarray:
    found = pictures.head_norms(run.exp.cohorts, run.state.clients)
    if found is None:
        raise UserError(f"{run.path}: its clients have no linear head to draw.")
    return found


def prototypes(args):
    """Global and local prototypes of two dimensions (ProtoNorm Figure 2 a to d)."""
    one = _flat(only(args))
    local = one.local.mean[one.clients], one.local.count[one.clients]
    plots.prototypes_2d(args.out, _pulled(one), *local, one.classes)


def features(args):
    """Test features of clients and their prototypes (ProtoNorm Figures 2 e, f; 6)."""
    planes = []
    for name, one in shown(args).items():
        one = _flat(one)
        for i in one.clients:
            made = pictures.plane(_trained(one), one.local, i)
            title = f"client {i}" + f", {name}" * (len(args.workdirs) > 1)
            planes.append(made._replace(title=title))
    plots.features_grid(args.out, planes, one.classes)


def _flat(one: Shown) -> Shown:
    dim = one.run.exp.spec.feat_dim
    if dim != 2:
        raise UserError(
            f"{one.run.path} has features of {dim} dimensions, and this picture needs "
            "two (model.feat_dim=2, as the preset spiral); tsne draws any."
        )
    return one


def _pulled(one: Shown) -> np.ndarray:
    """Global prototypes as clients are pulled to them: scaled (ProtoNorm Eq. 15)."""
    return one.protos.mean * one.run.config.method.get("upscale", 1.0)


def _trained(one: Shown) -> pictures.Trained:
    exp, state = one.run.exp, one.run.state
    examples = build.examples(exp.dataset)
    return pictures.Trained(exp, examples, state.server, state.clients)


def alignment_trace(args):
    """What happens over the iterations of the last alignment (ProtoNorm Figure 4)."""
    traces, shapes = {}, {}
    for name, path in selection.named(args.workdirs).items():
        run = finished.load(path, args.data_dir)
        before = finished.before_alignment(run)
        label = f"{name}, round {run.round}"
        traces[label] = finished.trace(before)
        shapes[label] = int((before.count > 0).sum()), before.mean.shape[1]
    plots.alignment_trace(args.out, traces, shapes)


SEED = 0  # of the choice of samples and of t-SNE


def tsne(args):
    """Test features, local and global prototypes by t-SNE (RefProtoFL Figure 2)."""
    rows, told = [], []
    for name, one in shown(args).items():
        parts = _points(one, args.samples)
        place, perplexity = embed(
            np.concatenate([p for p, _ in parts]), args.perplexity
        )
        ends = np.cumsum([len(p) for p, _ in parts])[:-1]
        placed = zip(np.split(place, ends), [y for _, y in parts], strict=True)
        rows.append(plots.Embedded(name, *[a for pair in placed for a in pair]))
        told.append(f"{perplexity:.3g}")
    said = ", ".join(dict.fromkeys(told))
    note = (
        f"Test samples: at most {args.samples} of each class and client, drawn at "
        f"random, seed {SEED}. scikit-learn's TSNE of samples and prototypes together, "
        f"from principal components, perplexity {said}, seed {SEED}."
    )
    plots.embedding(args.out, rows, one.run.exp.spec.num_classes, note)


def embed(x_ND: np.ndarray, perplexity: float) -> tuple[np.ndarray, float]:
    """Points of a plane by t-SNE, and the perplexity: a third of the points at most."""
    from sklearn.manifold import TSNE  # takes a second: only who needs it pays

    perplexity = min(perplexity, (len(x_ND) - 1) / 3)
    made = TSNE(2, perplexity=perplexity, init="pca", random_state=SEED)
    return made.fit_transform(np.asarray(x_ND, np.float32)), perplexity


def _points(one: Shown, most: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Features, local and global prototypes, with their classes."""
    trained = _trained(one)
    classes, feat, label = one.classes, [], []
    for i in one.clients:
        net, client, data = pictures.one_client(trained, i)
        at_M = sample(_labels(data), classes, most, i)
        if len(at_M):
            x, y = pictures.features(net, client, data, at_M)
            feat.append(x)
            label.append(y)
    if not feat:
        raise UserError("these clients have no test sample of these classes.")
    seen = np.concatenate(feat), np.concatenate(label)
    local, learnt = _local(one, trained), one.learnt.protos
    k, c = np.nonzero(local.count[:, classes] > 0)
    own = local.mean[:, classes][k, c], np.array(classes)[c]
    dim = seen[0].shape[1]
    there = []
    if learnt is not None and learnt.mean.shape[1] == dim:
        there = [c for c in classes if learnt.count[c] > 0]
    server = _pulled(one)[there] if there else np.zeros((0, dim))
    return [seen, own, (server, np.array(there, int))]


def _labels(data) -> np.ndarray:
    rows = np.asarray(data.shard.index)[: int(data.shard.size)]
    return np.asarray(data.examples.y)[rows]


def sample(y_M: np.ndarray, classes: Sequence[int], most: int, client: int):
    """Positions of at most `most` examples of each class, at random."""
    order = np.random.default_rng([SEED, client]).permutation(len(y_M))
    found = [order[y_M[order] == c][:most] for c in classes]
    return np.concatenate(found)


def _local(one: Shown, trained: pictures.Trained) -> HostProtos:
    """Local prototypes [K, C, D] of the chosen clients.

    Those that clients remember; else, and where the server compares an adapter's
    output, class means over their training examples.
    """
    if one.learnt.local is not None:
        return HostProtos(one.local.mean[one.clients], one.local.count[one.clients])
    means, counts = [], []
    for i in one.clients:
        x, y = pictures.features(*pictures.one_client(trained, i, "train"))
        count_C = np.bincount(y, minlength=one.run.exp.spec.num_classes)
        sum_CD = np.zeros((len(count_C), x.shape[1]))
        np.add.at(sum_CD, y, x)
        means.append(sum_CD / np.maximum(count_C, 1)[:, None])
        counts.append(count_C)
    return HostProtos(np.stack(means), np.stack(counts))
