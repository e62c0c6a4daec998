"""Released code of HtFLlib as the other side, https://github.com/TsingZ0/HtFLlib.

Its classes come from a checkout. They are given data and initial networks, keep in
memory what they write to disk, and take their steps in the order of the released
`train`. `protonorm.py` and `tinyproto.py` run libraries that are made from it.
"""

import copy
import importlib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.released import ours, release, workload
from benchmarks.released.ours import Start
from benchmarks.released.release import begin as begin

MEAN = "receive_ids", "aggregate_parameters"
GEN = "receive_ids", "train_generator", "aggregate_parameters"
L2G = "clientL2G", "FedL2G", "receive_grads", "aggregate_grads"
CLASSES = {  # row -> module, classes of client and server, steps of the server
    "feddistill": ("fd", "clientFD", "FD", "receive_logits"),
    "fedgen": ("gen", "clientGen", "FedGen", *GEN),
    "fedgh": ("gh", "clientGH", "FedGH", "receive_protos", "train_head"),
    "fedkd": ("kd", "clientKD", "FedKD", *MEAN),
    "fedl2g": ("l2g_feat", *L2G),
    "fedl2g_logits": ("l2g_logit", *L2G),
    "fedmrl": ("mrl", "clientMRL", "FedMRL", *MEAN),
    "fedproto": ("proto", "clientProto", "FedProto", "receive_protos"),
    "fedtgp": ("tgp", "clientTGP", "FedTGP", "receive_protos", "update_TGP"),
    "fml": ("fml", "clientFML", "FML", *MEAN),
    "lg_fedavg": ("lg", "clientLG", "LG_FedAvg", *MEAN),
    "local": ("local", "clientLocal", "Local"),
}
OPTIONS = {  # option of jaxproto -> of HtFLlib
    "alpha": "alpha",
    "aux_dim": "sub_feature_dim",
    "beta": "beta",
    "energy_start": "T_start",
    "lam": "lamda",
    "server_epochs": "server_epochs",
    "tau": "margin_threthold",
}


class Memory:
    """Items that the library would write to disk."""

    def __init__(self):
        self.items, self.loaded = {}, {}

    def save(self, item, role: str, name: str, path=None):
        """Keeps a copy of an item."""
        self.items[role, name] = copy.deepcopy(item)

    def load(self, role: str, name: str, path=None):
        """Returns a copy of an item, or None."""
        self.loaded[name] = copy.deepcopy(self.items.get((role, name)))
        return self.loaded[name]


def rounds(
    row: str,
    start: Start,
    classes: Mapping[str, tuple] = CLASSES,
    load: Callable = importlib.import_module,
    **settings,
) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after every round.

    Args:
      row: method to compare.
      start: state of both sides before round 1.
      classes: of this library, or of one that is made from it.
      load: name of a module -> module.
      settings: further ones of the command line.
    """
    memory, base = Memory(), importlib.import_module("flcore.clients.clientbase")
    base.save_item, base.load_item = memory.save, memory.load
    pairs = [[*zip(*release.tensors(*d), strict=True)] for d in start.train]
    base.read_client_data = lambda _, i, **__: pairs[i]
    name, client, server, *steps = classes[row]
    clients = load(f"flcore.clients.client{name}")
    servers = load(f"flcore.servers.server{name}")
    kinds = getattr(clients, client), getattr(servers, server)
    server = federation(start, *kinds, settings)
    for role, items in first_items(row, start, servers).items():
        for name, item in items.items():
            memory.save(item, role, name)
    if row.startswith("fedl2g"):
        server.guiding_vec = memory.load("Server", "guiding_vec")
        rate = start.options["server_rate"]
        server.optimizer = torch.optim.SGD(server.guiding_vec.parameters(), rate)
    servers.DataLoader = uploads_by_class  # of FedTGP and FedGH
    noise = torch.tensor(ours.drawn_noise()).float()
    for r in range(workload.ROUNDS):
        if row.startswith("fedl2g"):
            deal(server, clients, start, r)
        with (
            mock.patch("numpy.random.choice", lambda *_: ours.drawn_labels()),
            mock.patch("torch.rand", lambda *_, **__: noise),
        ):
            one_round(row, server, steps, memory, r)
        nets = [memory.load(c.role, "model") for c in server.clients]
        yield [release.flat(net) for net in nets]


def uploads_by_class(pairs: list[tuple[torch.Tensor, int]], size: int, **_):
    """Returns batches of uploads in the order of `ours.uploads_by_class`."""
    return DataLoader(sorted(pairs, key=itemgetter(1)), size)


def federation(start: Start, make, kind, settings: Mapping):
    """Builds a server with its clients."""
    args = arguments(start, settings)
    nets = [release.Network(params["net"]) for params in start.clients]
    place = "flcore.clients.clientbase.BaseHeadSplit"
    with mock.patch(place, lambda args, i: nets[i]):
        sizes = enumerate(len(y) for _, y in start.train)
        clients = [make(args, i, n, 0, **release.NOT_SLOW) for i, n in sizes]
    for client, data in zip(clients, start.train, strict=True):
        client.load_train_data = lambda data=data: release.batches(*data)
        client.qualified_labels = [0]  # replaced by `drawn_labels`
        client.mask_idx_dict = args.mask_idx_dict  # of TinyProto
    server = object.__new__(kind)
    server.__dict__.update(
        vars(args),
        args=args,
        clients=clients,
        selected_clients=clients,
        energy=args.T_start,
        loss=nn.CrossEntropyLoss(),
        CEloss=nn.CrossEntropyLoss(),
        qualified_labels=[0],
        role="Server",
        save_folder_name=None,
    )
    return server


def arguments(start: Start, settings: Mapping) -> Namespace:
    """Returns the command line of HtFLlib with the options of jaxproto."""
    given = {OPTIONS[k]: v for k, v in start.options.items() if k in OPTIONS}
    rate = start.options.get("server_rate")
    return Namespace(
        **release.COMMON,
        **{"T_start": None, "mask_idx_dict": None, **given, **settings},
        batch_size=start.options.get("server_batch", workload.BATCH),
        data_dist=[np.bincount(y, minlength=workload.CLASSES) for _, y in start.train],
        feature_dim=workload.DIM,
        generator_learning_rate=rate,
        mentee_learning_rate=workload.RATE,
        meta_quiz_batches=1,
        meta_study_batches=1,
        models_folder_name="",
        save_folder_name="temp",
        save_folder_name_full=None,
        server_learning_rate=rate,
    )


def first_items(row: str, start: Start, servers) -> dict[str, dict]:
    """Returns what the server and the clients have before round 1, by role."""
    server, items = start.server, {}
    if row in ("lg_fedavg", "fedgh"):
        items["head"] = release.linear(server["kernel"], server["bias"])
    if row == "fedgen":
        items["head"] = release.linear(**server.sent.head)
        items["generative_model"] = generator(servers, server.sent.generator)
    if row in ("fml", "fedmrl"):
        dim = start.options.get("aux_dim", workload.DIM)
        items["global_model"] = release.Network(server, dim)
    if row.startswith("fedl2g"):
        vectors = torch.tensor(server.vectors)
        items["guiding_vec"] = nn.Embedding.from_pretrained(vectors, freeze=False)
    if row == "fedkd":
        items["global_model"] = release.Network(ours.first_mentee(start))
    if row == "fedtgp":
        items["TGP"] = trainable_prototypes(servers, server.network)
    roles = {"Server": items}
    for i, params in enumerate(start.clients):
        own = roles[f"Client_{i}"] = {}
        if row == "fedkd":
            own["global_model"] = items["global_model"]
            own["W_h"] = release.linear(params["project"])
        if row == "fedmrl":
            own["proj"] = release.linear(**params["projector"])
    return roles


def generator(servers, weights) -> nn.Module:
    """Returns FedGen's generator with jaxproto's weights."""
    rows, hidden = weights["in"].shape
    noise = rows - workload.CLASSES
    made = servers.Generator(noise, workload.CLASSES, hidden, workload.DIM, "cpu")
    made.fc1[0] = release.linear(weights["in"], np.zeros(hidden, np.float32))
    scales = {"weight": weights["scale"], "bias": weights["shift"]}
    tensors = {k: torch.tensor(v) for k, v in scales.items()}
    made.fc1[1].load_state_dict(tensors, strict=False)
    made.fc = release.linear(**weights["out"])
    return made


def trainable_prototypes(servers, weights) -> nn.Module:
    """Returns FedTGP's network with jaxproto's weights."""
    made = servers.Trainable_Global_Prototypes(
        workload.CLASSES, workload.DIM, workload.DIM, "cpu"
    )
    made.embedings.weight.data = torch.tensor(weights["embedding"])
    made.middle[0][0] = release.linear(**weights["hidden"])
    made.fc = release.linear(**weights["out"])
    return made


def deal(server, clients, start: Start, r: int):
    """Gives FedL2G's clients their quiz, study and training examples of round `r`."""
    parts = [ours.fedl2g_rows(len(y), r, start.options) for _, y in start.train]

    def read(_, i, **__):  # the quiz first
        x, y = release.tensors(*start.train[i])
        return [(x[k], y[k]) for k in np.concatenate(parts[i])]

    def load_all(pairs, *_, **__):
        return [tuple(map(torch.stack, zip(*pairs, strict=True)))]

    clients.read_client_data, clients.DataLoader = read, load_all
    every = zip(server.clients, start.train, parts, strict=True)
    for client, (x, y), (quiz, _) in every:
        client.num_quiz = len(quiz)
        steps = np.arange(len(y)).reshape(-1, workload.BATCH)
        kept = [rows[~np.isin(rows, quiz)] for rows in steps]
        seen = [release.tensors(x[rows], y[rows]) for rows in kept]
        client.load_train_data = lambda seen=seen: seen


def one_round(row: str, server, steps: list[str], memory: Memory, r: int):
    """Runs a round in the order of the released `train`."""
    if row in ("fedgen", "fedgh", "lg_fedavg") or (row == "fedkd" and r):
        server.send_parameters()
    for client in server.clients:
        client.train()
        if row == "fedgh":
            client.collect_protos()
        if row.startswith("fedl2g"):
            client.meta_study()
    for step in steps:
        getattr(server, step)(*[r] * (row == "protonorm"))
    if row == "fedgen":  # HtFLlib does not save the generator that it trains
        trained = memory.loaded["generative_model"]
        memory.save(trained, "Server", "generative_model")
