"""Pages that MkDocs generates: one of all methods, one of all networks."""

import csv
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
METHODS_INTRO = f"""# Methods

{len(METHODS)} methods: what a client sends each round, the prediction rules
([meaning](components.md#prediction-rules)), and what each was checked against. For
readers who look for a method, or decide whether to rely on it. This page is generated
from the registry, the docstrings and the option tables of the code.

- **Released code**: three rounds, or a part of the method, equal stored numbers of the
  authors' code up to rounding.
- **PyTorch**: an implementation in plain PyTorch, or PyTorch's own function for a term
  of the loss, agrees from equal weights and batches.
- **Formula**: a test computes the paper's equations again.
- **Reduction**: without its own term, the method equals a simpler one.
- **Costs**: the paper's numbers of scalars per round are reproduced.

Besides, of every method a round is finite and compiles once, results do not depend on
the order of clients or on padding, a lost upload keeps the client's progress, and every
number format has the bytes that are counted (`tests/kernel/methods/test_contract.py`).
Whether the papers' orders appear in runs: [Claims](claims.md). Two related methods are
not implemented: FedKTL needs the weights of pretrained generators, and the formulas of
FedSAF (arXiv 2605.05959) were not available.
"""
METHODS_HEAD = "method", "paper", "year", "sends", "rules"
DETAILS_INTRO = f"""
Below, "Sent" has the arrays of a client's upload for {SHAPES}. The deviations of each
method from its paper are in the docstring of its file.

"""
NETWORKS_INTRO = """# Networks

For readers who choose `model.group`. The page is generated from the registry.
Parameters are those of bodies and heads for 32 x 32 images with 3 channels (texts: 200
tokens of 20,000 words; `harcnn`: 128 steps of 9 channels; `amazon_mlp`: 5,000 numbers),
10 classes and 512 features. Networks whose name ends in `_code` have the released
code's placement of dropout or its text features ([decisions](decisions.md#dropout)).

| network | parameters | file | about | checked |
|---|---|---|---|---|
"""
TICKS = ("released code", "PyTorch", "formula", "reduction", "costs")  # words of checks


def read(file: str) -> list[dict[str, str]]:
    """Returns the rows of a table beside this file."""
    with (Path.cwd() / "docs" / file).open() as lines:
        return list(csv.DictReader(lines))


ABOUT = {row["name"]: row for row in read("methods.csv")}
CHECKS = read("checks.csv")


def checks(kind: str, name: str) -> list[dict[str, str]]:
    """Returns what a method or network was checked against."""
    return [row for row in CHECKS if (row["kind"], row["name"]) == (kind, name)]


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


def rules(exp) -> tuple[str, ...]:
    """Returns the prediction rules of a method."""
    net = exp.cohorts[0].net
    shapes = statelessness.client_shapes(exp.method, net, exp.local, exp.dataset)
    return statelessness.rule_names(exp.method, net, shapes)


def method_row(name: str, exp) -> str:
    """Returns the row of a method."""
    about, done = ABOUT[name], [row["check"] for row in checks("method", name)]
    ticks = ["yes" if any(word in d for d in done) else "" for word in TICKS]
    names = ", ".join(f"`{rule}`" for rule in rules(exp))
    cells = [f"[`{name}`](#{name})", about["paper"], about["year"]]
    return "| " + " | ".join([*cells, about["sends"], names, *ticks]) + " |"


def method_entry(name: str, exp) -> str:
    """Returns the section of a method."""
    factory = METHODS[name]
    module = inspect.getmodule(factory)
    file = Path(inspect.getsourcefile(factory)).relative_to(Path.cwd()).as_posix()
    arrays = sent(exp)
    tested = [f"{row['check']} (`{row['test']}`)" for row in checks("method", name)]
    shown = ", ".join(arrays[:4]) + f", and {len(arrays) - 4} more" * (len(arrays) > 4)
    clients = "one architecture" if exp.method.homogeneous else "any architectures"
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
        f"- Clients: {clients}. Prediction rules: {', '.join(rules(exp))}.",
        f"- Sent by a client each round: {shown or 'nothing'}.",
        f"- Checked against: {', '.join(tested)}.",
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
    done = ", ".join(row["check"] for row in checks("network", name))
    return f"| `{name}` | {count:,} | {link} | {summary(factory)} | {done} |\n"


made = {name: digits(name) for name in METHODS}
with mkdocs_gen_files.open("methods.md", "w") as page:
    head = (*METHODS_HEAD, *TICKS)
    table = ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    table += [method_row(name, exp) for name, exp in made.items()]
    entries = [method_entry(name, exp) for name, exp in made.items()]
    page.write(METHODS_INTRO + "\n".join([*table, DETAILS_INTRO, *entries]))
with mkdocs_gen_files.open("networks.md", "w") as page:
    page.write(NETWORKS_INTRO + "".join(map(network_row, models.NETS)))
