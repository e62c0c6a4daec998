"""One line of meaning for every field of a configuration."""

import inspect
import re
from collections.abc import Callable

from jaxproto.methods import METHODS

FIELDS = {  # dotted path -> meaning
    "name": "first part of the default work directory",
    "seed": "of initial weights, batches and participation",
    "rounds": "communication rounds",
    "eval_every": "rounds between evaluations",
    "checkpoint_every": "rounds between checkpoints",
    "data.name": "data set",
    "data.data_dir": "folder of prepared TFDS sets; empty: TFDS's own default",
    "data.pixels": "height and width images are resized to; 0: as they are",
    "data.vocab_size": "tokens of texts at most; 0: all training words",
    "data.max_len": "words of a text that count",
    "data.min_texts": "training texts with a word, for a node to tell it: nodes",
    "data.clients": "number of clients",
    "data.partition": "who gets which examples",
    "data.alpha": "Dirichlet's concentration: small is heterogeneous",
    "data.classes_per_client": "of partitions named pathological",
    "data.min_size": "examples per client at least: dirichlet, quantity",
    "data.least_samples": "the same: pfllib, pfllib_pathological",
    "data.pool": "pool official training and test parts, then split each client's",
    "data.train_share": "share of a client's examples that it trains on, pooled",
    "data.seed": "of the partition, one for every `seed` unless it is follow (-1)",
    "data.public_share": "share of the examples that are known to all",
    "data.public_classes": "share of the classes that public examples cover",
    "data.public_source": "a data set whose examples are public instead",
    "model.group": "group of networks over the clients, or names joined by commas",
    "model.feat_dim": "features before the classifier, dimensions of a prototype",
    "model.compute_dtype": "of the bodies of the networks",
    "model.init": "initial weights within an architecture: of each client, or equal",
    "method.name": "federated learning method",
    "local.epochs": "passes over a client's data in a round",
    "local.batch_size": "examples per step",
    "local.order": "of examples in each epoch",
    "local.short": "clients with fewer examples than one batch",
    "local.optimizer_state": "at the start of each round",
    "optimizer.name": "any optimiser of optax that takes a learning rate",
    "optimizer.learning_rate": "of local training",
    "optimizer.momentum": "sgd only",
    "optimizer.weight_decay": "added to the gradient, as PyTorch's SGD does",
    "optimizer.clip_norm": "largest norm of the gradient; 0 is off",
    "optimizer.schedule": "of the learning rate over rounds",
    "optimizer.decay": "factor per round of schedule=exponential",
    "participation.law": "which clients take part in a round",
    "participation.fraction": "of uniform, beta, gamma, weibull and cyclic",
    "participation.beta_a": "of law=beta",
    "participation.beta_b": "of law=beta",
    "participation.gamma_shape": "of law=gamma",
    "participation.gamma_scale": "of law=gamma",
    "participation.weibull_shape": "of law=weibull",
    "participation.weibull_scale": "of law=weibull",
    "participation.cyclic_groups": "of law=cyclic",
    "participation.circular_groups": "of law=circular",
    "participation.dropout": "probability that a trained update is lost",
    "privacy.unit": "whose data no release depends on much: a client, an example",
    "privacy.clip": "largest L2 norm of what a unit contributes to a sum",
    "privacy.noise": "standard deviation of the noise of a sum, in units of clip",
    "privacy.delta": "of the (epsilon, delta) that is accounted for",
    "wire.up": "number format of values from client to server",
    "wire.down": "number format of values from server to client",
    "wire.check": "encode and decode every message of every round",
    "early_stopping.rule": "by whose pooled accuracy; empty: the first of the records",
    "early_stopping.patience": "evaluations without improvement that end a run; 0: off",
    "early_stopping.least": "share of the examples that is an improvement",
    "clients_at_once": "how many clients of a cohort the device trains at a time",
    "clients.store": "where clients are between rounds; none where they keep nothing",
    "eval.metrics": "what is measured of every rule, besides the accuracy",
    "eval.per_client": "write a table of the clients for each evaluation",
    "eval.clients": "clients that are evaluated: all, or a sample of so many",
}
METHOD = {  # hyper-parameter, of whichever method has it -> meaning
    "lam": "weight of the pull towards prototypes",
    "reg": "distance of that pull",
    "pull": "distance of that pull",
    "collect": "when a client computes its prototypes",
    "aggregate": "mean over clients of a class, or over all of its examples",
    "upscale": "gamma, factor of the global prototypes that clients receive",
    "on_server": "classes that nobody reported: without prototype, or the last one",
    "alignment": "of global prototypes on the sphere",
    "budget": "share of the adapter's coordinates that are uploaded",
    "adapter_dim": "width of the adapter and of its prototypes",
    "anchors": "external prototypes of public examples, or none",
    "tau": "margin between prototypes at most",
    "server_epochs": "of the server's training",
    "server_rate": "learning rate of the server's training",
    "server_batch": "prototypes per step of the server's training; 0: local.batch_size",
    "base": "method that the sparse prototypes extend",
    "s": "coordinates of a prototype that are sent; 0: a tenth of model.feat_dim",
    "masks": "which coordinates of a class are kept",
    "mask_seed": "of random masks",
    "scaling": "of uploads by class counts",
    "mu": "TinyProto: scale of class counts, 0: 0.9 C / num_examples; else the weight "
    "of the proximal term",
    "num_examples": "training examples in all; 0: as divided",
    "compare": "features with the whole prototype, or on its mask",
    "distill": "weight of the pull for each class and client",
    "statistics": "of BatchNorm: each client's own, or averaged",
    "server_momentum": "of the server's update (gmf)",
    "rho": "share of a class prototype that is kept at an update",
    "scale": "factor of the cosine similarities at the start",
    "variance": "weight of the classifier's variance term",
    "uniformity": "weight of the features' uniformity term",
    "virtual": "weight of the virtual examples' loss",
    "align": "weight of the contrastive term over real and virtual examples",
    "contrast": "weight of the contrastive term over virtual examples alone",
    "virtual_classes": "of virtual examples; 0: as many as the data have",
    "images": "virtual examples per class",
    "virtual_seed": "of virtual examples",
    "stored": "virtual images are cut to [0, 1] and normalised, as the released files",
    "q": "probability of a snapshot round, which samples `fraction` of the clients",
    "fraction": "of the clients, in a snapshot round",
    "pace": "of q over the rounds",
    "gamma": "how strongly q adapts",
    "aux": "network that is exchanged",
    "alpha": "weight of a client's own loss",
    "beta": "weight of the exchanged network's own loss",
    "clip": "largest norm of the gradient",
    "target": "of distillation between two networks: whether gradients pass",
    "energy_start": "share of singular values' energy that is sent in round 1",
    "energy_end": "the same in the last round",
    "distance": "between logits and the mean logits of a class",
}


def meaning(path: str, method: str) -> str:
    """What a field of a configuration is; of a method's own as its factory says.

    Args:
      path: dotted, such as "method.lam".
      method: its name.
    """
    section, _, name = path.partition(".")
    if section != "method" or name == "name":
        return FIELDS[path]
    return METHOD[name] if name in METHOD else documented(METHODS[method], name)


def documented(factory: Callable, name: str) -> str:
    """The line about an argument under "Args:" of a docstring; empty without one."""
    text = inspect.cleandoc(factory.__doc__ or "").partition("Args:\n")[2]
    entry = rf"^  (?:\w+, )*{name}(?:, \w+)*: (.*(?:\n    .*)*)"
    found = re.search(entry, text, re.MULTILINE)
    return " ".join(found[1].split()).removesuffix(".") if found else ""
