"""What fits a data set, whatever the method: flat fields of a configuration."""

DATASETS = {
    "digits": {
        "data.name": "digits",
        "data.min_size": 20,
        "model.group": "digits",
        "model.feat_dim": 64,
        "rounds": 60,
        "local.batch_size": 10,
        "optimizer.learning_rate": 0.05,
        "eval_every": 2,
    },
    "spiral": {  # N Appendix A and Section 3.2
        "data.name": "spiral",
        "data.clients": 10,
        "data.min_size": 40,
        "model.group": "spiral_mlp",
        "model.feat_dim": 2,
        "rounds": 200,
        "eval_every": 10,
    },
    "fashion_mnist": {
        "data.name": "tfds:fashion_mnist",
        "data.clients": 10,
        "data.min_size": 40,
        "model.group": "light",
        "model.feat_dim": 512,
        "rounds": 20,
        "checkpoint_every": 5,
    },
    "cifar10": {  # N Section 5.1; full papers' setting: hours on a CPU
        "data.name": "tfds:cifar10",
        "data.min_size": 40,
        "model.group": "Ht0",
        "model.feat_dim": 512,
        "rounds": 300,
        "checkpoint_every": 5,
    },
    "cifar100": {  # as CIFAR-10
        "data.name": "tfds:cifar100",
        "data.min_size": 40,
        "model.group": "Ht0",
        "model.feat_dim": 512,
        "rounds": 300,
        "checkpoint_every": 5,
    },
}
