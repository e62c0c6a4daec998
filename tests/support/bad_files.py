"""Files that no run can use, each with words that its message must have."""

import os
from pathlib import Path

import numpy as np
from PIL import Image

from jaxproto.core.types import SPECIAL
from support.hostile_folders import flip

GOOD = {"x_train": np.zeros((30, 4), np.float32), "y_train": np.arange(30) % 3}
WORDS = np.array(["a", "b", "c"])[np.arange(30) % 3]
THREE, ZEROS = np.arange(3), np.zeros((3, 4), np.float32)
TESTS = "x_test has examples of shape"


def tested(x, y) -> dict:
    return {"x_test": x, "y_test": y}


def labels(strange: str) -> dict:
    return {"y_train": np.array([strange, *WORDS[1:]], object).astype("U")}


NPZ = {  # name -> changed arrays, words of the message
    "lengths": ({"y_train": np.arange(29) % 3}, "30 examples but y_train has 29"),
    "nan": ({"x_train": np.full((30, 4), np.nan)}, "NaN or infinite"),
    "overflow": ({"x_train": np.full((30, 4), 1e300)}, "NaN or infinite"),
    "int64": ({"x_train": np.zeros((30, 4), int)}, "x_train has type int64"),
    "no_width": ({"x_train": np.zeros((30, 0), np.float32)}, "shape (30, 0)"),
    "channels": ({"x_train": np.zeros((30, 3, 8, 8), np.uint8)}, "channels first"),
    "pixels": (
        {"x_train": np.full((30, 8, 8), 127.5), "y_train": np.arange(30) % 3},
        "floats from 127.5 to 127.5 in the shape of images, which look like pixels",
    ),
    "empty": ({"x_train": np.zeros((0, 4)), "y_train": np.zeros(0, int)}, "is empty"),
    "halves": ({"y_train": np.full(30, 0.5)}, "y_train has type float64"),
    "negative": ({"y_train": np.arange(30) - 1}, "label -1 in row 0"),
    "one_hot": ({"y_train": np.eye(30)}, "y_train has shape (30, 30)"),
    "one_class": ({"y_train": np.zeros(30, int)}, "all 30 examples have one label"),
    "unlabelled": (labels(" "), "no label in row 0"),
    "unnamed": (labels("nan"), "no label in row 0 (1 of 30"),
    "equal": ({"y_train": np.where(GOOD["y_train"] == 0, "0", "00")}, "equal as num"),
    "other_test": (tested(ZEROS, THREE + 3), "3 of 3 test examples are of classes"),
    "escape": (labels("\x1b[31mred"), r"the character \x1b"),
    "turned": (labels("a\u202eb"), r"the character \u202e"),
    "no_classes": ({"num_classes": 0}, "num_classes is 0"),
    "two_numbers": ({"num_classes": [3, 4]}, "num_classes is [3, 4]"),
    "few_classes": ({"num_classes": 2}, "label 2 in row 2"),
    "million_classes": ({"num_classes": 10**6}, "at most 100,000 are supported"),
    "invisible": (labels("a\u200b"), r"'a\u200b' look the same"),
    "no_test_labels": ({"x_test": np.zeros((3, 4))}, "y_test missing"),
    "test_type": (tested(np.uint8(ZEROS), THREE), f"{TESTS} (4,) and type uint8"),
    "test_words": (tested(ZEROS, WORDS[:3]), "labels are of two kinds"),
    "test_empty": (tested(ZEROS[:0], THREE[:0]), "the test part is empty (x_test"),
    "word_classes": ({"y_train": WORDS, "num_classes": 4}, "num_classes is 4, but the"),
    "domains": ({"domain_train": np.arange(3)}, "domain_train has shape (3,)"),
    "no_tokens": ({"tokens": ["a", "b"]}, "tokens is no vocabulary. Save texts"),
    "crowded": ({f"x{i}": 0 for i in range(3000)}, "(3002 in all)"),
    "objects": (
        {"x_train": np.array([{}, []], object)},
        "cannot be read as npz (it holds Python objects, in an array of type object). ",
    ),
    "numbers": ({"tokens": SPECIAL}, "but the file has a vocabulary. Save tokens as"),
    "token": (
        {"tokens": SPECIAL, "x_train": np.arange(60).reshape(30, 2)},
        "x_train has tokens from 0 to 59, but the vocabulary has 2",
    ),
}
CSV = {  # name -> content, words of the message
    "empty": (b"", "is empty"),
    "twice": (b"text,text,label\na,b,c\n", "'text' 2 times"),
    "half_header": (b"text,class\na,b\n", "no column 'label'"),
    "wide": (b"a,b\nc,d,e\n", "line 2: 3 fields where 2"),
    "unlabelled": (b"a,b\nc,\n", "line 2: no label"),
    "missing": (b"a,b\nc,nan\n", "line 2: no label (nan)"),
    "nul": (b"a,b\nc\0,d\n", "line 2: a NUL byte"),
    "latin": (b"a,b\n\xe9t\xe9,d\n", "line 2: not utf-8"),
    "quote": (b'a,b\n"c,d\n', "line 2: "),
    "texts": (b"".join(b"%d,text %d\n" % (i, i) for i in range(20)), "20 different"),
    "endless": (b"a,b\n" + b"w" * (2**24 + 1) + b",d\n", "line 2: field larger than"),
    "wordless": (b";,a\n:,b\n" * 100, "no training text has a word"),
}
PARTITION = {  # name -> content, words of the message
    "empty": (b"", "no column client"),
    "twice": (b"client,index,client\n0,1,0\n", "column client 2 times"),
    "negative": (b"client,index\n-1,1\n", "line 2: client is '-1'"),
    "zero": (b"client,index\n01,1\n", "line 2: client is '01'"),
    "huge": (b"client,index\n0,9999999999999999999\n", "line 2: index is '999"),
    "short": (b"client,index\n0\n", "line 2: has 1 values"),
    "third_part": (b"client,index,part\n0,1,valid\n", "line 2: part is 'valid'"),
    "client": (b"client,index\n0,1\n9,2\n", "line 3: client is 9"),
    "lacking": (b"client,index\n0,1\n0,2\n", "client 1 has no line"),
    "outside": (b"client,index\n0,1\n1,99999\n", "line 3: index is 99999"),
    "again": (b"client,index\n0,1\n1,1\n", "line 3: example 1 is used twice"),
    "untested": (b"client,index\n0,1\n1,2\n", "client 0 has "),
}


def made(*lines: str) -> bytes:
    """Returns a configuration file whose get_config has these lines, from line 4 on."""
    head = "import ml_collections\nfrom jaxproto import config\ndef get_config():\n    "
    return (head + "\n    ".join(lines) + "\n").encode()


RETURN = "return ml_collections.ConfigDict(c)"
START = "c = config.default_config().to_dict()"
DEEP = START, "d = c['method']", "for _ in range(20):"
LIST = (
    "c = config.default_config().to_dict()",
    "c['method'] = {'name': ['local']}",
    RETURN,
)
FIVE = "c = config.experiment('local')", "c.rounds = 'five'", "return c"
CONFIGS = {  # name -> content, words of the message
    "none": (b"x = 1\n", "defines no get_config"),
    "syntax": (b"def get_config(:\n", "not Python"),
    "nul": (b"x = '\0'\n", "not Python"),
    "raises": (made("raise ValueError('of\\nmine')"), "raises.py, line 4: ValueError"),
    "inside": (made(*FIVE), "inside.py, line 5: rounds is 'five'; it must be"),
    "imports": (b"import nothing_of_this_name\n", "imports.py, line 1: ModuleNotFound"),
    "exits": (made("raise SystemExit(3)"), "line 4: SystemExit: 3"),
    "loops": (made("return get_config()"), "loops.py, line 4: RecursionError: "),
    "number": (made("return 3"), "get_config returns int"),
    "empty": (made("c = {}", RETURN), "the configuration lacks attack.clients, "),
    "list": (made(*LIST), "unknown method ['local']"),
    "deep": (made(*DEEP, "    d['x'] = d = {}", RETURN), "nested more than 8 deep"),
}


def picture(path: Path, size: tuple = (8, 8), mode: str = "L", grey: int = 0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, grey).save(path)


def two_classes(root: Path):
    picture(root / "cat" / "1.png", grey=1)
    picture(root / "dog" / "1.png", grey=2)


def folders(root: Path) -> dict[str, str]:
    several = "sizes damaged deep_colour copies pipe loop out escape"
    for name in several.split():
        two_classes(root / name)
    picture(root / "sizes" / "cat" / "2.png", (9, 7))
    (root / "damaged" / "cat" / "2.png").write_bytes(b"no image")
    picture(root / "deep_colour" / "cat" / "2.png", mode="I;16")
    picture(root / "copies" / "dog" / "2.png", grey=1)
    os.mkfifo(root / "pipe" / "cat" / "2.png")
    os.symlink(root / "loop" / "cat", root / "loop" / "cat" / "again")
    os.symlink("/", root / "out" / "cat" / "all")
    (root / "escape" / "\x1b[31m").mkdir()
    (root / "bare").mkdir()
    (root / "pictureless" / "cat").mkdir(parents=True)
    picture(root / "one_class" / "cat" / "1.png")
    picture(root / "untrained" / "test" / "cat" / "1.png")
    (root / "file").write_text("no folder")
    return {
        "sizes": "images of 2 sizes: {}/folder/sizes/cat/1.png has 8 x 8 pixels, but "
        "{}/folder/sizes/cat/2.png has 9 x 7. Set data.pixels to the height and width",
        "damaged": "1 of 3 images cannot be read",
        "deep_colour": "1 of 3 images cannot be read",
        "copies": "the same file in two classes",
        "pipe": "it is a pipe, no regular file",
        "loop": "which is read already",
        "out": "is a link out of the folder, to /",
        "escape": r"the character \x1b in its name",
        "bare": "no class folders",
        "pictureless": "no images",
        "one_class": "all 1 examples have one label",
        "untrained": "but no train",
        "file": "no such folder",
    }


KINDS = {"npz": ("npz", NPZ), "csv": ("csv", CSV)}  # folder -> ending, files
KINDS |= {"partition": ("csv", PARTITION), "config": ("py", CONFIGS)}


def make(root: Path):
    """Writes all bad files, in folders npz, csv, partition, config and folder."""
    for kind, (end, files) in KINDS.items():
        (root / kind / f"folder.{end}").mkdir(parents=True)
        os.mkfifo(root / kind / f"pipe.{end}")
        for name, (content, _) in files.items():
            file = root / kind / f"{name}.{end}"
            if isinstance(content, dict):
                np.savez(file, **{**GOOD, **content})
            else:
                file.write_bytes(content)
    npz = root / "npz"
    np.savez(npz / "good.npz", **GOOD)
    content = (npz / "good.npz").read_bytes()
    (npz / "cut.npz").write_bytes(content[:-100])
    at = content.find(GOOD["y_train"].tobytes()) + 9  # of which the checksum fails
    (npz / "flipped.npz").write_bytes(flip(content, 8 * at))
    np.save(npz / "one.npy", GOOD["x_train"])
    np.savez(npz / "keyless.npz", images=np.zeros(3))
    (root / "csv" / "pipes").mkdir()
    (root / "csv" / "pipes" / "train.csv").write_text("some words,a\nothers,b\n")
    os.mkfifo(root / "csv" / "pipes" / "test.csv")
    return folders(root / "folder")
