"""Released code of PFLlib as the other side, https://github.com/TsingZ0/PFLlib.

Its classes come from a checkout. They are given data and initial networks, and take
their steps in the order of the released `train`.
"""

import copy
import importlib
from argparse import Namespace
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.released import release, workload
from benchmarks.released.ours import Start
from benchmarks.released.release import begin as begin

CLASSES = {  # row -> module, class of the client, class of the server
    "ditto": ("ditto", "clientDitto", "Ditto"),
    "fedavg": ("avg", "clientAVG", "FedAvg"),
    "fedpac": ("pac", "clientPAC", "FedPAC"),
    "fedpcl": ("pcl", "clientPCL", "FedPCL"),
    "fedper": ("per", "clientPer", "FedPer"),
    "fedprox": ("prox", "clientProx", "FedProx"),
    "fedrep": ("rep", "clientRep", "FedRep"),
    "moon": ("moon", "clientMOON", "MOON"),
    "scaffold": ("scaffold", "clientSCAFFOLD", "SCAFFOLD"),
}
OPTIONS = {  # option of jaxproto -> of PFLlib
    "contrastive": "mu",
    "lam": "lamda",
    "mu": "mu",
    "server_rate": "server_learning_rate",
    "temperature": "tau",
}
SHARED_BODY = ("fedpac", "fedper", "fedrep")
TWO_PHASES = ("fedpac", "fedrep")  # of the local epochs, half for the head


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    server = federation(row, start)
    for _ in range(workload.ROUNDS):
        server.send_models()
        server.Vars = [getattr(c, "V", None) for c in server.clients]
        server.Hs = [getattr(c, "h", None) for c in server.clients]
        for client in server.clients:
            if row == "ditto":
                client.ptrain()
            client.train()
        nets = [c.model_per if row == "ditto" else c.model for c in server.clients]
        yield [release.flat(net) for net in nets]
        serve(row, server)


def serve(row: str, server):
    """Takes the server's step."""
    if row in ("fedpac", "fedpcl"):
        module = importlib.import_module(type(server).__module__)
        server.receive_protos()
        server.global_protos = module.proto_aggregation(server.uploaded_protos)
        if row == "fedpcl":
            server.prototype_padding()
            # PFLlib takes the order in which classes were met for that of the labels
            every = [server.global_protos, *server.client_protos_set]
            ordered = [{c: protos[c] for c in sorted(protos)} for protos in every]
            server.global_protos, *server.client_protos_set = ordered
        server.send_protos()
        server.uploaded_heads = []
    server.receive_models()
    server.aggregate_parameters()
    if row == "fedpac":
        # PFLlib overwrites the heads of clients while it combines those of later ones
        server.uploaded_heads = copy.deepcopy(server.uploaded_heads)
        server.aggregate_and_send_heads()


def federation(row: str, start: Start):
    """Builds the server of a row with its clients, as they are before round 1."""
    name, client, server = CLASSES[row]
    make = getattr(importlib.import_module(f"flcore.clients.client{name}"), client)
    kind = getattr(importlib.import_module(f"flcore.servers.server{name}"), server)
    args, clients = arguments(row, start), []
    for i, (data, params) in enumerate(zip(start.train, start.clients, strict=True)):
        args.model = release.Network(params["net"])
        if row == "fedpcl":
            args.model.forward = args.model.base.forward
        clients.append(make(args, i, len(data[1]), 0, **release.NOT_SLOW))
        clients[i].load_train_data = lambda data=data: release.batches(*data)
    first = first_network(row, start)
    server = object.__new__(kind)
    server.__dict__.update(
        vars(args),
        clients=clients,
        selected_clients=clients,
        time_threthold=float("inf"),
        global_model=first.base if row in SHARED_BODY else first,
        client_protos_set=[None] * len(clients),
        global_c=[torch.zeros_like(p) for p in first.parameters()],
    )
    if row == "fedpcl":  # no networks are sent
        for name in ("send_models", "receive_models", "aggregate_parameters"):
            setattr(server, name, lambda: None)
    if row == "fedpac":
        for one in clients:
            one.set_head(first.head)
    return server


def arguments(row: str, start: Start) -> Namespace:
    """Returns the command line of PFLlib with the options of jaxproto."""
    given = {OPTIONS[k]: v for k, v in start.options.items() if k in OPTIONS}
    args = Namespace(
        **release.COMMON,
        **given,
        batch_size=workload.BATCH,
        learning_rate_decay=False,
        learning_rate_decay_gamma=1.0,
        plocal_epochs=workload.EPOCHS // 2 if row in TWO_PHASES else workload.EPOCHS,
        save_folder_name="",
    )
    if row in TWO_PHASES:
        args.local_epochs = workload.EPOCHS // 2
    return args


def first_network(row: str, start: Start):
    """Returns the network that the server sends in round 1."""
    server = getattr(start.server, "params", start.server)
    if row == "fedpac":
        head = {k: v[0] for k, v in server.heads.value.items()}
        return release.Network({"body": server.body, "head": head})
    if row in SHARED_BODY:
        return release.Network({**start.clients[0]["net"], "body": server})
    if row == "fedpcl":
        return release.Network(start.clients[0]["net"])
    return release.Network(server.get("net", server))
