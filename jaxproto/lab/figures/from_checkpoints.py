"""Pictures of prototypes and features of runs, from their last checkpoints."""

from jaxproto.errors import UserError
from jaxproto.lab import plots
from jaxproto.lab.callbacks import pictures
from jaxproto.lab.figures import arguments, derived, selected_runs
from jaxproto.lab.saved_runs.restore import load
from jaxproto.summary.host_prototypes import mean_or_zero


def global_prototypes(args):
    """Draws values of the global prototypes (TinyProto Figure 2 c, d)."""
    name, pick = selected_runs.single_run(args)
    options = {"binary": args.binary, "in_order": args.in_order}
    protos, dim = pick.protos, pick.run.exp.spec.feat_dim
    pictures.global_values(args.out, protos, dim, name, pick.classes, **options)


def local_prototypes(args):
    """Draws a class's local prototypes and the global one (TinyProto Figure 2 a, b)."""
    name, pick = selected_runs.single_run(args)
    if len(pick.classes) > 1 and args.classes is not None:
        raise UserError("local prototypes are drawn of one class: give --classes 2.")
    class_id = pick.classes[0] if args.classes is not None else None
    options = {"binary": args.binary, "in_order": args.in_order}
    learnt = pick.learnt._replace(local=pick.local)
    pictures.local_values(
        args.out, learnt, name, class_id=class_id, clients=pick.clients, **options
    )


def prototypes(args):
    """Draws prototypes of two dimensions (ProtoNorm Figure 2 a to d)."""
    planes = []
    for name, pick in selected_runs.selected_runs(args).items():
        selected_runs.require_2d(pick)
        local = pick.local.mean[pick.clients], pick.local.count[pick.clients]
        viewed_CD = mean_or_zero(pick.viewed)
        planes.append(plots.prototype_plane(name, viewed_CD, *local))
        classes = pick.classes
    plots.prototypes_2d(args.out, planes, classes)


def features(args):
    """Draws test features of clients and prototypes (ProtoNorm Figures 2 e, f; 6)."""
    planes = []
    for name, pick in selected_runs.selected_runs(args).items():
        selected_runs.require_2d(pick)
        default = pictures.default_clients(pick.local.count)
        clients = pick.clients if args.clients else default
        planes += [
            pictures.feature_plane(*pick.trained, pick.local, i, name) for i in clients
        ]
        classes = pick.classes
    plots.features_grid(args.out, planes, classes)


def alignment_trace(args):
    """Draws the iterations of the last or first alignment (ProtoNorm Figure 4)."""
    traces, shapes = {}, {}
    for name, path in arguments.by_label(args.workdirs).items():
        run = load(path, args.data_dir)
        run = derived.after_first_round(run) if args.first else run
        before = derived.before_alignment(run)
        label = f"{name}, round {run.round}"
        traces[label] = derived.alignment_trace(before)
        shapes[label] = int((before.count > 0).sum()), before.mean.shape[1]
    plots.alignment_trace(args.out, traces, shapes)
