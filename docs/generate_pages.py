"""Pages that MkDocs generates: one of all methods, one of all networks."""

import inspect
import re
from pathlib import Path

import jax
import mkdocs_gen_files

from jaxproto import config, models
from jaxproto.config.factory_fields import all_fields
from jaxproto.core.types import Tree
from jaxproto.experiment import build, statelessness
from jaxproto.features.timing import devices as simulated_devices
from jaxproto.methods import METHODS

SHAPES = (
    "20 clients on the digits (10 classes, 64 features, network `mlp`); FedAvg's frame "
    "sends a whole network, of which the first arrays are shown"
)
# Networks for other inputs than images and texts
INPUTS = {"spiral_mlp": (2,), "harcnn": (128, 9, 1), "amazon_mlp": (5000,)}
METHODS_INTRO = f"""# Methods in detail

For readers who look for a method, its paper and its options. The page is generated
from the registry, the docstrings and the option tables of the code. "Sent" has the
arrays of a client's upload for {SHAPES}. The deviations of
each method from its paper are in the docstring of its file. What each method was
checked against: [Status](status.md).
"""
NETWORKS_INTRO = """# Networks in detail

For readers who choose `model.group`. The page is generated from the registry.
Parameters are those of bodies and heads for 32 x 32 images with 3 channels (texts: 200
tokens of 20,000 words; `harcnn`: 128 steps of 9 channels; `amazon_mlp`: 5,000 numbers),
10 classes and 512 features.

| network | parameters | file | about |
|---|---|---|---|
"""


def summary(thing) -> str:
    """Returns the first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def paper(module) -> str:
    """Returns the paragraph of a module's docstring that cites its paper."""
    paragraphs = (inspect.getdoc(module) or "").split("\n\n")
    cited = next((p for p in paragraphs if "https://" in p), "")
    return re.sub(r"(https://\S+?)(?=[.,;:)]*(\s|$))", r"<\1>", " ".join(cited.split()))


def digits(name: str):
    """Returns the experiment of a method on the digits."""
    made = config.experiment(name, "digits")
    made.model.group = "resnet4" if name == "vhl" else "mlp"
    if "aux" in made.method:
        made.method.aux = "mlp"
    if name == "refprotofl":
        made.data.public_share = 0.1
    return build.experiment(made, "cpu")


def sent(exp) -> list[str]:
    """Returns the arrays of an upload."""
    net = exp.cohorts[0].net
    up = simulated_devices.upload_shape(exp.parts({}), exp.dataset, net)
    return [_array(path, a) for path, a in jax.tree_util.tree_leaves_with_path(up)]


def _array(path: Tree, a) -> str:
    return f"`{jax.tree_util.keystr(path) or 'array'} {a.dtype}{list(a.shape)}`"


def method_entry(name: str) -> str:
    """Returns the section of a method."""
    factory, exp = METHODS[name], digits(name)
    module = inspect.getmodule(factory)
    file = Path(inspect.getsourcefile(factory)).relative_to(Path.cwd()).as_posix()
    net, method = exp.cohorts[0].net, exp.method
    shapes = statelessness.client_shapes(method, net, exp.local, exp.dataset)
    rules = statelessness.rule_names(method, net, shapes)
    arrays = sent(exp)
    shown = ", ".join(arrays[:4]) + f", and {len(arrays) - 4} more" * (len(arrays) > 4)
    clients = "one architecture" if method.homogeneous else "any architectures"
    fields = {
        path: field
        for path, field in all_fields(name).items()
        if path.startswith("method.") and path != "method.name"
    }
    rows = [
        f"| `{p}` | `{f.default}` | {f.words.replace('|', 'or')} | {f.help} |"
        for p, f in fields.items()
    ]
    table = ["| option | default | allowed | meaning |", "|---|---|---|---|", *rows]
    lines = [
        f"## `{name}`",
        summary(module),
        paper(module),
        f"- Clients: {clients}. Prediction rules: {', '.join(rules)}.",
        f"- Sent by a client each round: {shown or 'nothing'}.",
        f"- Configuration: `configs/{name}.py`. Code: [{file}](../{file}).",
    ]
    head = "\n\n".join(lines[:3]) + "\n\n" + "\n".join(lines[3:])
    return head + ("\n\n" + "\n".join(table) if rows else "") + "\n"


def network_row(name: str) -> str:
    """Returns the row of a network."""
    factory = getattr(models.NETS[name], "func", models.NETS[name])
    text = "vocab_size" in inspect.signature(factory).parameters
    net = models.build(
        name,
        input_shape=INPUTS.get(name, (200,) if text else (32, 32, 3)),
        num_classes=10,
        feat_dim=2 if name == "spiral_mlp" else 512,
        vocab_size=20_000 if text else None,
    )
    params, _ = jax.eval_shape(net.init, jax.random.key(0))
    count = sum(a.size for a in jax.tree.leaves(params))
    file = Path(inspect.getsourcefile(factory)).relative_to(Path.cwd()).as_posix()
    link = f"[{Path(file).name}](../{file})"
    return f"| `{name}` | {count:,} | {link} | {summary(factory)} |\n"


with mkdocs_gen_files.open("methods.md", "w") as page:
    page.write("\n".join([METHODS_INTRO, *map(method_entry, METHODS)]))
with mkdocs_gen_files.open("networks.md", "w") as page:
    page.write(NETWORKS_INTRO + "".join(map(network_row, models.NETS)))
