"""Pictures of the papers' formulas; they need no run."""

from functools import partial

from jaxproto import models
from jaxproto.config import default_config, method_fields
from jaxproto.core.types import Spec
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment.display_names import display_name
from jaxproto.experiment.method_builder import build_method
from jaxproto.lab import plots
from jaxproto.methods import METHODS
from jaxproto.summary import nominal_cost

CLASSES = [10, 20, 50, 100, 200, 500, 1000]
DIMENSIONS = [32, 64, 128, 256, 512, 1024, 2048]


def communication_cost(args):
    """Draws scalars of a client's round against K and d (TinyProto Figure 1).

    The formulas of `Method.nominal`: one client that holds every class, both ways.
    """
    names = [choose_from("method", name, METHODS) for name in args.methods.split(",")]
    classes, dims = args.num_classes, args.feat_dims
    fixed_K, fixed_d = args.at_classes, args.at_dim
    by_K = [Spec(k, fixed_d) for k in classes]
    by_d = [Spec(fixed_K, d) for d in dims]
    shown = [
        (f"{fixed_d} dimensions", "classes K", _bands(names, args, classes, by_K)),
        (f"{fixed_K} classes", "dimensions d", _bands(names, args, dims, by_d)),
    ]
    note = f"one client that holds every class; whole networks are {args.network}"
    plots.communication_cost(args.out, shown, note)


def _bands(names, args, x, specs):
    bands = []
    for name in names:
        values = [cost(name, spec, args) for spec in specs]
        fields = method_fields(name)
        title = display_name({f"method.{k}": value for k, value in fields.items()})
        label = f"{title}, s = d / 10" if "masks" in fields else title
        bands.append(plots.band(label, x, [values]))
    return bands


def cost(name: str, spec: Spec, args) -> int:
    """Returns nominal scalars of a round of one client that holds every class.

    Raises:
      UserError: the method has no formula.
    """
    run_config = default_config(name)
    if "masks" in run_config.method:
        run_config.method.masks = "block_exact"  # sizes of free ones, built much faster
    network = partial(
        models.build,
        input_shape=tuple(args.image),
        num_classes=spec.num_classes,
        feat_dim=spec.feat_dim,
    )
    method = build_method(run_config.method, spec, 1, run_config, network)
    scalars = nominal_cost.nominal(method, network(args.network), [spec.num_classes])
    if scalars is None:
        raise UserError(f"{name} has no formula of its cost; leave it out.")
    return scalars
