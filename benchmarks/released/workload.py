"""Data, training and methods of the comparison with released code."""

from collections.abc import Mapping
from typing import Any, NamedTuple

SIZES = (40, 60, 80)  # examples, whole batches
EQUAL_SIZES = (60, 60, 60)
OTHER_SIZES = {
    "feddf": EQUAL_SIZES,  # a plain mean over clients in the release
    "fedmd": EQUAL_SIZES,  # as many steps for every client in the release
    "fedmrl": EQUAL_SIZES,  # a plain mean over clients in HtFLlib
    "fpl": (20, 30) * 4,  # clusters need many clients
}
SHAPE, CLASSES, DIM, BATCH, RATE, EPOCHS, ROUNDS = (8, 8, 1), 10, 64, 10, 0.05, 2, 3
PLANNED = ROUNDS + 1  # FedProc has no contrast in the last round
COMMON = {
    "data.partition": "feature",
    "data.pool": False,
    "local.batch_size": BATCH,
    "local.epochs": EPOCHS,
    "local.order": "fixed",
    "model.feat_dim": DIM,
    "model.group": "mlp",
    "optimizer.learning_rate": RATE,
    "rounds": PLANNED,
}
DRAWN = 0.075  # below FAST's probability of a snapshot in round 3 alone, on both sides
# at a low rate, because Adam amplifies the rounding of small gradients
DF = {"server_batch": BATCH, "server_epochs": 10, "server_rate": 3e-5}
# FedKD's factors are smaller than its matrices, FedGH has one batch of all uploads
KD = {"aux": "mlp", "energy_start": 0.5, "energy_end": 0.5, "target": "attached"}
GEN = {"hidden": 32, "noise": 8, "server_batch": BATCH, "server_epochs": 5}
GH = {"server_batch": 1000, "server_epochs": 3}
# FedTGP's margin is the gap in round 1, tau in round 2
TGP = {"server_batch": BATCH, "server_rate": RATE, "tau": 0.4}
NOVA = {"server_momentum": 0.5, "optimizer.momentum": 0.5}
TINY = {"collect": "train_pass", "mu": 0.05}


class Row(NamedTuple):
    """A method with options that are not the default; with a dot, other fields."""

    options: Mapping[str, Any] = {}
    mistake: Mapping[str, Any] = {}  # wrong options, which the comparison has to find


ROWS = {
    "ditto": Row(mistake={"mu": 1.01}),
    "fast": Row({"fraction": 0.5, "pace": "adaptive", "q": 0.0}, {"gamma": 0.5}),
    "fedavg": Row(),
    "feddf": Row(DF, {"server_rate": 3.03e-5}),
    "feddistill": Row({"distance": "raw_ce", "lam": 0.1}, {"lam": 0.101}),
    "feddyn": Row(mistake={"mu": 0.0101}),
    "fedgen": Row(GEN, {"weight": 1.01}),
    "fedgh": Row(GH, {"server_rate": 0.0101}),
    "fedhp": Row({"anchoring": 10.0}, {"anchoring": 10.1}),
    "fedkd": Row(KD, {"target": "detached"}),
    "fedl2g": Row(mistake={"server_rate": 200.0}),
    "fedl2g_logits": Row({"guide": "logits", "server_rate": 0.1}, {"server_rate": 1.0}),
    "fedmd": Row(mistake={"digest_share": 0.4}),
    "fedmrl": Row({"aux": "mlp", "aux_dim": 16}, {"aux_dim": 15}),
    "fednh": Row({"scale": 20.0}, {"rho": 0.91}),
    "fednova": Row(NOVA, {"server_momentum": 0.505}),
    "fedpac": Row(mistake={"lam": 1.01}),
    # gradients below the norm where PFLlib clips
    "fedpcl": Row({"temperature": 0.25}, {"temperature": 0.252}),
    "fedper": Row(),
    "fedproc": Row(mistake={"temperature": 1.01}),
    "fedproto": Row({"collect": "train_pass"}, {"collect": "after_training"}),
    "fedprox": Row(mistake={"mu": 0.0}),
    "fedrep": Row(mistake={"head_share": 0.4}),
    "fedtgp": Row({"collect": "before_training", **TGP}, {"tau": 0.404}),
    "feduv": Row(mistake={"uniformity": 0.51}),
    "fml": Row({"aux": "mlp", "target": "attached"}, {"target": "detached"}),
    "fpl": Row(mistake={"temperature": 0.0202}),
    "heterofl": Row(mistake={"rolling": True}),
    "lg_fedavg": Row(),
    "local": Row(),
    "moon": Row(mistake={"contrastive": 1.01}),
    "protonorm": Row({"collect": "before_training"}, {"upscale": 50.5}),
    "scaffold": Row(mistake={"server_rate": 0.99}),
    "tinyproto": Row({**TINY, "masks": "block", "s": 20}, {"mask_seed": 1}),
    "tinyproto_aps": Row({**TINY, "masks": "none"}, {"mu": 0.0505}),
    "vhl": Row(mistake={"contrast": 0.101}),
}
