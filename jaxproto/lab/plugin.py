"""What this layer adds to a run and to the command line (`jaxproto/plugins.py`)."""

COMMANDS = {  # name -> function, what it does
    "sweep": (
        "jaxproto.lab.cli.sweep:main",
        "run or resume one experiment for every value of some fields",
    ),
    "inspect": (
        "jaxproto.lab.cli.describe:inspect",
        "show the partition and examples of a configuration's data",
    ),
    "cost": (
        "jaxproto.lab.cli.describe:cost",
        "scalars and bytes of a round, without training",
    ),
    "disclosure": (
        "jaxproto.lab.cli.describe:disclosure",
        "every field that crosses the network, and what it reveals",
    ),
    "compare": ("jaxproto.lab.cli.compare:main", "one table of finished runs"),
    "plot": (
        "jaxproto.lab.cli.plot:main",
        "a picture of finished runs, as in the papers",
    ),
    "report": (
        "jaxproto.lab.cli.report:main",
        "one HTML page about a run, several runs or a sweep",
    ),
}

KINDS = {  # of `jaxproto list` -> function that returns names with a text or function
    "plots": "jaxproto.lab.figures.registry:help_texts",
}

MODES = {  # of the command `run`: modules with define_flags, is_requested and run
    "sweep": "jaxproto.lab.cli.sweep_flags",
    "baselines": "jaxproto.lab.cli.baseline_flags",
}

READERS = {  # prefix of data.name -> function of path and pixels, what the path has
    "domains": (
        "jaxproto.lab.data.image_folder:load_domains",
        "folders of class folders of images, one for each domain",
    ),
    "folder": (
        "jaxproto.lab.data.image_folder:load",
        "class folders of images, with or without train/, val/, test/",
    ),
}

TABLES = {  # prefix of data.name -> function of path, pixels and data.columns, about
    "csv": (
        "jaxproto.lab.data.tables:load",
        "rows of text and label, or of numbers: a file, or train.csv and test.csv",
    ),
    "parquet": (
        "jaxproto.lab.data.tables:load_parquet",
        "the same in parquet files",
    ),
}

PARTITIONS = {  # kind of data.partition -> reader of a Partition, how it is written
    "classes": ("jaxproto.lab.data.classes_by_hand:load", "classes:0,1;2,3"),
    "file": ("jaxproto.lab.data.partition_file:load", "file:PATH"),
}
SCHEMES = {  # kind of data.partition -> function of a text, how it is written
    "flwr": (
        "jaxproto.lab.data.flower_datasets:flower_scheme",
        "flwr:CLASS,key=value",
    ),
}

AT_END = {  # of a run that ended well: functions of experiment, model, path, console
    "pictures": "jaxproto.lab.callbacks.pictures:draw_all",
}

WRITERS = {  # name -> class; an extra of the writer's name installs its library
    "tensorboard": "jaxproto.lab.callbacks.tensorboard:TensorBoard",
    "wandb": "jaxproto.lab.callbacks.wandb:Wandb",
    "mlflow": "jaxproto.lab.callbacks.mlflow:Mlflow",
}
