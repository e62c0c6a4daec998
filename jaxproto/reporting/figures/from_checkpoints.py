"""Pictures of prototypes and features of runs, from their last checkpoints."""

from jaxproto import plots
from jaxproto.errors import UserError
from jaxproto.reporting.figures import arguments, derived, selected_runs
from jaxproto.saved_runs.restore import load
from jaxproto.summary import pictures


def global_prototypes(args):
    """Draws values of the global prototypes (TinyProto Figure 2 c, d)."""
    name, one = selected_runs.single_run(args)
    options = {"binary": args.binary, "in_order": args.in_order}
    protos, dim = one.protos, one.run.exp.spec.feat_dim
    pictures.global_values(args.out, protos, dim, name, one.classes, **options)


def local_prototypes(args):
    """Draws a class's local prototypes and the global one (TinyProto Figure 2 a, b)."""
    name, one = selected_runs.single_run(args)
    if len(one.classes) > 1 and args.classes is not None:
        raise UserError("local prototypes are drawn of one class: give --classes 2.")
    chosen = one.classes[0] if args.classes is not None else None
    options = {"binary": args.binary, "in_order": args.in_order}
    learnt = one.learnt._replace(local=one.local)
    pictures.local_values(
        args.out, learnt, name, class_id=chosen, clients=one.clients, **options
    )


def prototypes(args):
    """Draws prototypes of two dimensions (ProtoNorm Figure 2 a to d)."""
    planes = []
    for name, one in selected_runs.selected_runs(args).items():
        selected_runs.require_2d(one)
        local = one.local.mean[one.clients], one.local.count[one.clients]
        planes.append(plots.prototype_plane(name, one.viewed.mean, *local))
        classes = one.classes
    plots.prototypes_2d(args.out, planes, classes)


def features(args):
    """Draws test features of clients and prototypes (ProtoNorm Figures 2 e, f; 6)."""
    planes = []
    for name, one in selected_runs.selected_runs(args).items():
        selected_runs.require_2d(one)
        default = pictures.default_clients(one.local.count)
        clients = one.clients if args.clients else default
        planes += [
            pictures.feature_plane(one.trained, one.local, i, name) for i in clients
        ]
        classes = one.classes
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
