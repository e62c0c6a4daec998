"""Sets prepared from small archives, without TensorFlow, and what can go wrong."""

import hashlib
import http.server
import io
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from functools import partial

import numpy as np
import pytest
import requests
import tensorflow_datasets as tfds
from PIL import Image
from support import archives_toy as toy
from support.refusal import refused
from tensorflow_datasets.core.download import download_manager

from jaxproto.papers.cli import prepare as cli
from jaxproto.papers.data import gtsrb, prepare, tiny_imagenet
from jaxproto.papers.data import tfds_reader as prepared

prepare.set_progress_bars(False)


@pytest.fixture
def manual(tmp_path):
    folder = tmp_path / "archives"
    folder.mkdir()
    toy.save_tiny_imagenet(folder)
    toy.save_gtsrb(folder)
    return folder


@pytest.fixture
def tiny(tmp_path, manual):
    folders = {"data_dir": tmp_path, "manual_dir": manual}
    return partial(prepare.prepare, "tiny_imagenet", **folders)


@pytest.fixture
def offline(monkeypatch):
    """Downloads fail, and say so at once."""

    def fail(self, urls):
        raise requests.ConnectionError("Failed to resolve")

    monkeypatch.setattr(download_manager.DownloadManager, "download", fail)


def decoded(pixels):
    """Pixels of a JPEG image as the archives have them."""
    return np.asarray(Image.open(io.BytesIO(toy.encoded(pixels, "JPEG"))))


def test_tiny_imagenet_is_prepared_once(tmp_path, tiny, manual, offline, monkeypatch):
    """Classes are in the order of WordNet ids, labels of val/ from the annotations."""
    done = tiny()
    assert done.fresh and done.path == tmp_path / "tiny_imagenet" / "1.0.0"
    assert done.sizes == {"train": 6, "validation": 3}
    data = prepared.load(done.name, tmp_path)
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 2] and data.train_size == 6
    assert data.classes == ("n01 goldfish", "n02 wall", "n03")
    assert data.x.shape == (9, 64, 64, 3) and (data.x[0] == decoded(toy.COLOUR)).all()
    assert (data.x[1] == decoded(toy.GREY)[..., None]).all()
    of_first = [np.array_equal(x, data.x[0]) for x in data.x[6:]]
    assert of_first == [False, True, False]  # val_0 is annotated n02
    assert "tensorflow" not in sys.modules
    assert isinstance(data.x, np.memmap)
    before = {file: file.stat().st_mtime_ns for file in done.path.iterdir()}
    shutil.rmtree(manual)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))  # where TFDS looks, too
    again = prepare.prepare("tiny_imagenet")
    assert again == done._replace(fresh=False)
    assert before == {file: file.stat().st_mtime_ns for file in done.path.iterdir()}
    assert prepared.find_version("tiny_imagenet") == done.path


def test_without_tensorflow_the_extra_is_named(tmp_path, monkeypatch, offline):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    extra = "Install it: pip install 'jaxproto[prepare]'. Only preparing needs it"
    for name in [*prepare.SPACE][:6]:  # those of TFDS
        with refused(extra):
            prepare.prepare(name, data_dir=tmp_path)
        assert not [*tmp_path.iterdir()], name


def test_without_network_urls_and_files_are_listed(tmp_path, monkeypatch, offline):
    failed = "gtsrb43: the download failed (ConnectionError: Failed to r"
    with refused(failed) as caught:
        prepare.prepare("gtsrb43", data_dir=tmp_path)
    said = str(caught.value)
    assert "put them into one directory and give it by --manual_dir:" in said
    for archive in (gtsrb.TRAIN["torchvision"], *gtsrb.TEST):
        assert f"  {archive.name}  from  {archive.url}" in said
    assert not [*tmp_path.glob("gtsrb43/torchvision/*")]
    monkeypatch.setattr(prepare, "_check_tensorflow", lambda name: None)
    of_tfds = "cifar-10-binary.tar.gz  from  https://www.cs.toronto.edu/~kriz/cifar-"
    with refused(of_tfds):
        prepare.prepare("cifar10", data_dir=tmp_path)


ROOT = "tiny-imagenet-200"
WNIDS, VAL = f"{ROOT}/wnids.txt", f"{ROOT}/val/val_annotations.txt"
LAST = f"{ROOT}/val/images/val_2.JPEG"
OTHERS = "".join(f"val_{i}.JPEG\tn0{i + 2}\t0\n" for i in range(3))
HALF = toy.encoded(toy.COLOUR, "JPEG")[:-999]
DAMAGE = [  # file of the archive, its content, words of the message
    (WNIDS, None, f": {WNIDS} is missing. Download it"),
    (WNIDS, "n01\nn02", "both; the first is n03. Download it"),
    (LAST, HALF, f", image {LAST}, cannot be read (OSError: image file is trunc"),
    (LAST, toy.encoded(toy.GREY[:9], "JPEG"), "size (64, 9), but all images of this"),
    (VAL, "val_0.JPEG\tn01\t0\n", "2 validation images lack their annotation or"),
    (VAL, OTHERS, "val_annotations.txt has class n04, which is not in wnids.txt."),
]


def test_a_damaged_archive_leaves_nothing_behind(tmp_path, tiny, manual, offline):
    """The unpacked one will do."""
    path = manual / f"{ROOT}.zip"
    for name, content, message in DAMAGE:
        toy.save_tiny_imagenet(manual, {name: content})
        with refused(path, message):
            tiny()
        assert not [*tmp_path.glob("tiny_imagenet/*")]
    toy.save_tiny_imagenet(manual)
    shutil.unpack_archive(path, tmp_path / "unpacked")
    assert tiny(manual_dir=tmp_path / "unpacked").fresh
    assert prepared.load("tiny_imagenet", tmp_path).train_size == 6
    path.write_bytes(path.read_bytes()[:9999])
    with refused(f"{path} cannot be read (BadZipFile: File is not a zip file). It "):
        list(tiny_imagenet.train(path))
    with zipfile.ZipFile(path, "w") as archive:  # stored, not compressed
        archive.writestr(WNIDS, "n01\nn02\nn03")
    path.write_bytes(path.read_bytes().replace(b"n02", b"n04"))
    with refused(f"{path}, file {WNIDS}, cannot be read (BadZipFile: Bad CRC-32"):
        tiny_imagenet.names(path)


TRAIN, TRUTH = gtsrb.TRAIN["torchvision"].name, gtsrb.TEST[1].name
(TEXT,) = toy.gtsrb_test_files()[1].values()
BLIND = {gtsrb.TRUTH: TEXT.replace("ClassId", "Class")}
STRANGE = [  # an archive of GTSRB, its files, words of the message
    (TRAIN, toy.gtsrb_train_files(labels=(0, 43)), "class is 00043, but classes go fr"),
    (TRAIN, {"GTSRB/Training/a.txt": ""}, "no images GTSRB/Training/CLASS/*.ppm in"),
    (TRAIN, {"Other/a.txt": ""}, "there is no GTSRB/Training in it. It is another"),
    (TRUTH, toy.gtsrb_test_files((1, 2, 3))[1], "1 test images lack their line in GT-"),
    (TRUTH, BLIND, "has no column 'ClassId', only Filename, Width, Height"),
]


def test_strange_archives_of_gtsrb_are_refused(tmp_path, manual):
    for name, files, message in STRANGE:
        toy.save_gtsrb(manual)
        toy.save(manual / name, files)
        with refused(message):
            prepare.prepare("gtsrb43", data_dir=tmp_path, manual_dir=manual)


KILLED = """
import os, signal, sys
from jaxproto.papers.data import prepare
from jaxproto.papers.data import archives
archives.check_rgb = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
prepare.prepare("tiny_imagenet", data_dir=sys.argv[1], manual_dir=sys.argv[2])
"""


def test_a_killed_preparation_is_not_taken_for_a_finished_one(tmp_path, tiny, manual):
    command = [sys.executable, "-c", KILLED, tmp_path, manual]
    assert subprocess.run(command, capture_output=True).returncode == -signal.SIGKILL
    (left,) = (tmp_path / "tiny_imagenet").iterdir()
    with refused("no prepared data set in"):
        prepared.find_version("tiny_imagenet", tmp_path)
    done = tiny()
    assert done.fresh
    note = f"note: {left} is left from an interruption"
    assert note in "\n".join(prepare.prepared_message(done, default=False))


def test_a_directory_copied_in_part_or_of_another_format_is_refused(tmp_path, tiny):
    done = tiny()
    for lost in ("dataset_info.json", "*train*"):
        (file,) = done.path.glob(lost)
        file.rename(tmp_path / "lost")
        with refused(f"{done.path} is incomplete: {file} is missing. Delete the direc"):
            tiny()
        (tmp_path / "lost").rename(file)
    info = done.path / "dataset_info.json"
    info.write_text(info.read_text().replace("array_record", "tfrecord"))
    for file in done.path.glob("*array_record*"):
        file.rename(str(file).replace("array_record", "tfrecord"))
    with refused(f"{done.path} is prepared as tfrecord, which only TensorFlow reads"):
        tiny()


def test_what_cannot_be_prepared_is_refused(tmp_path, tiny, monkeypatch):
    for name, message in (
        ("tiny_imagnet", "no data set 'tiny_imagnet'. Did you mean 'tiny_imagenet'?"),
        ("mnist:1.0.0", "Dataset mnist cannot be loaded at version 1.0.0, only: 3"),
        ("gtsrb43/torch", "BuilderConfig torch not found with version 1.0.0"),
    ):
        with refused(message):
            prepare.prepare(name, data_dir=tmp_path)
    with refused(f"manual_dir {tmp_path}/no is not a directory. Give another."):
        tiny(manual_dir=tmp_path / "no")
    with refused("pixels is -1: give 4096 at most"):
        tiny(pixels=-1)
    usage = shutil.disk_usage(tmp_path)._replace(free=100 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with refused(
        f"tiny_imagenet needs about 1994 MiB, but {tmp_path} has 100 MiB free"
    ):
        tiny()


@pytest.fixture
def server(manual, monkeypatch):
    """Serves the archives on this machine; its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    files = partial(http.server.SimpleHTTPRequestHandler, directory=manual)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), files) as httpd:
        threading.Thread(target=httpd.serve_forever).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


def test_a_download_is_checked_and_used(tmp_path, manual, server, monkeypatch):
    path = manual / "tiny-imagenet-200.zip"
    url, md5 = f"{server}/{path.name}", hashlib.md5(path.read_bytes()).hexdigest()
    gone = "the download failed (DownloadError: Failed to get url http://127.0.0"
    silent = "the download failed (ConnectionError: "
    damaged = f"download from {url} has md5 {md5} instead of 123"

    def official(url, md5):
        archive = tiny_imagenet.ARCHIVE._replace(url=url, md5=md5)
        monkeypatch.setattr(tiny_imagenet.TinyImagenet, "archives", (archive,))

    lost = {f"{server}/gone.zip": gone, "http://127.0.0.1:9/a.zip": silent}
    for there, message in (lost | {url: damaged}).items():
        official(there, "123")
        start = time.monotonic()
        with refused(message) as caught:
            prepare.prepare("tiny_imagenet", data_dir=tmp_path)
        assert time.monotonic() - start < 30  # TFDS alone: three minutes
    assert "It has been deleted; run the same command again" in str(caught.value)
    kept = [file for file in tmp_path.glob("downloads/**/*") if file.is_file()]
    assert path.read_bytes() not in [file.read_bytes() for file in kept]
    official(url, md5)
    done = prepare.prepare("tiny_imagenet", data_dir=tmp_path)
    assert done.sizes == {"train": 6, "validation": 3}
    note = f"{tmp_path / 'downloads'} is not needed any more"
    assert note in prepare.prepared_message(done, default=False)


def test_the_command_prepares_either_gtsrb_and_says_where_and_how_to_use_it(
    tmp_path, manual, capsys
):
    """Torchvision's unless said otherwise, both in the official order.

    docs/decisions.md#gtsrb: 39,270 images match the papers' costs, 51,839 do not.
    """
    assert gtsrb.SIZES == {"torchvision": 39_270 - 12_630, "official": 51_839 - 12_630}
    flags = [f"--data_dir={tmp_path}", f"--manual_dir={manual}"]
    names = {"gtsrb43/official": [0, 1, 2, 42], "tfds:gtsrb43": [0, 1, 42]}
    for name, classes in names.items():
        cli.main("prepare", [name, *flags])
        config = name.partition("/")[2] or "torchvision"
        path = tmp_path / "gtsrb43" / config / "1.0.0"
        builder = tfds.builder_from_directory(path)
        train, test = map(builder.as_data_source, ("train", "test"))
        assert [r["label"] for r in train] == [c for c in classes for _ in "12"]
        assert [r["label"] for r in test] == [42, 0]  # of the second archive
        assert [r["image"].shape for r in test] == [(30, 64, 3), (31, 64, 3)]
        assert (train[0]["image"] == toy.COLOUR[:15, :16]).all()
        assert (train[1]["image"] == toy.COLOUR[:20]).all()
        assert builder.info.features["label"].names[14] == "Stop"
        said = capsys.readouterr().out
    assert said.startswith("gtsrb43: space needed: 264 MiB to download and 250 MiB ")
    for line in (
        f"gtsrb43/torchvision: prepared: 6 train, 2 test examples in {path}\n",
        "note: the official archives have 26640 train, 12630 test examples: results ",
        "use it: --config.data.name=tfds:gtsrb43/torchvision "
        f"--config.data.data_dir={tmp_path}\n",
    ):
        assert line in said
