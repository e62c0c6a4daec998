"""Released code of FedDF's authors as the other side.

https://github.com/epfml/federated-learning-public-code, folder codes/FedDF-code. Its
worker trains the clients, its server averages and distils. They are given data and
networks, and exchange uploads in this process.
"""

import copy
import importlib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
from torch import nn

from benchmarks.released import ours, release, workload
from benchmarks.released.ours import Start

CLASSES = ("feddf",)
LEFT_OUT = ("pcode.datasets.prepare_data",)


def begin(source: Path):
    """Makes the code importable, without what reads files."""
    release.importable(source / "codes" / "FedDF-code", LEFT_OUT)


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    conf, net = arguments(start), release.Network(start.server["net"])
    net.activations = None  # the code passes them on, its loss has none
    for r in range(workload.ROUNDS):
        conf.graph.comm_round = r
        nets = [trained(conf, net, *data) for data in start.train]
        yield [release.flat(own) for own in nets]
        serve(conf, net, nets, start.public)


def arguments(start: Start) -> Namespace:
    """Returns the command line with the options of jaxproto."""
    with mock.patch("sys.argv", [""]):
        conf = importlib.import_module("parameters").get_args()
    steps = start.options["server_epochs"]
    conf.fl_aggregate = {
        "eval_batches_freq": steps,
        "student_learning_rate": start.options["server_rate"],
        "total_n_server_pseudo_batches": steps,
        "update_student_scheme": "avg_logits",
    }
    conf.__dict__.update(
        batch_size=workload.BATCH,
        clientid2arch=dict.fromkeys(range(len(start.clients)), "mlp"),
        graph=Namespace(client_id=1, on_cuda=False, worker_id=1),
        local_n_epochs=workload.EPOCHS,
        logger=mock.MagicMock(),
        lr=workload.RATE,
        lr_warmup_epochs=0,
        momentum_factor=0.0,
        weight_decay=0.0,
    )
    return conf


def trained(conf: Namespace, net: nn.Module, x: np.ndarray, y: np.ndarray):
    """Returns a client's network after its local training."""
    module, seen = importlib.import_module("pcode.worker"), release.batches(x, y)
    timer = importlib.import_module("pcode.utils.timer")
    own = object.__new__(module.Worker)
    own.__dict__.update(
        arch="mlp",
        conf=conf,
        criterion=nn.CrossEntropyLoss(),
        data_partitioner=None,
        dataset={"train": None},
        init_model=net,
        metrics=importlib.import_module("pcode.create_metrics").Metrics(net),
        model=copy.deepcopy(net),
        timer=timer.Timer(verbosity_level=0),
    )
    conf.num_batches_per_device_per_epoch = len(seen)
    place = "pcode.create_dataset.define_data_loader"
    with mock.patch(place, lambda *_, **__: (seen, None)):
        own._train()
    return own.model


def serve(conf: Namespace, net: nn.Module, nets: list, public: np.ndarray):
    """Takes the server's step, which ends in the network that it sends next."""
    fedavg = importlib.import_module("pcode.aggregation.fedavg")
    distil = importlib.import_module("pcode.aggregation.noise_knowledge_transfer")
    buffer = importlib.import_module("pcode.utils.tensor_buffer").TensorBuffer
    sent = {i: buffer([*own.state_dict().values()]) for i, own in enumerate(nets)}
    mean = fedavg._fedavg(conf.clientid2arch, len(nets), sent, {"mlp": net})
    rows = ours.drawn_rows()
    given = {
        "client_models": {"mlp": net},
        "distillation_data_loader": [release.tensors(public[rows], rows)],
        "fedavg_models": {"mlp": mean},
        "flatten_local_models": sent,
    }
    unused = "criterion metrics fa_val_perf distillation_sampler val_data_loader"
    given |= dict.fromkeys([*unused.split(), "test_data_loader"])
    # the only validated network, that after the last step, is the best one
    score = mock.Mock(return_value={"top1": 0.0})
    with mock.patch.object(distil.NoiseKTSolver, "validate", score):
        trained = distil.aggregate(conf, **given)["mlp"]
    net.load_state_dict(trained.state_dict())
