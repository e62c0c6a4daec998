"""Data sets whose examples come from people, writers or roles, read from archives.

`jaxproto prepare NAME --manual_dir=DIR` writes an npz file with the source of every
example; with the partition `feature` each source is a client.

  uci_har      30 people, 6 activities, windows of 128 steps of 9 channels. Anguita et
               al., "A Public Domain Dataset for Human Activity Recognition Using
               Smartphones", ESANN 2013.
  pamap2       9 people, 12 activities, windows of 256 steps of 27 channels. Reiss,
               Stricker, "Introducing a New Benchmarked Dataset for Activity
               Monitoring", ISWC 2012.
  femnist      about 3,500 writers, 62 characters; LEAF's JSON files.
  shakespeare  about 1,100 roles, the next of 80 characters; LEAF's JSON files.

Deviations:
  PFLlib's PAMAP2: a window of several activities gets the smallest of their
    numbers, missing values are 0, and each person's channels are divided by their
    maximum. Here: such windows are left out, missing values are interpolated, and each
    person's channels are standardised.
"""

import io
import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.lab.data.leaf import CHARACTERS, Parts, read_femnist, read_shakespeare
from jaxproto.papers.data import archives

HAR_ACTIVITIES = (
    *("walking", "walking upstairs", "walking downstairs"),
    *("sitting", "standing", "laying"),
)
HAR_SIGNALS = [
    f"{kind}_{axis}"
    for kind in ("body_acc", "body_gyro", "total_acc")
    for axis in "xyz"
]
PAMAP2_ACTIVITIES = {
    **{1: "lying", 2: "sitting", 3: "standing", 4: "walking", 5: "running"},
    **{6: "cycling", 7: "Nordic walking", 12: "ascending stairs"},
    **{13: "descending stairs", 16: "vacuum cleaning", 17: "ironing"},
    24: "rope jumping",
}
# Acceleration within 16 g, angular velocity and magnetic field of three sensors
PAMAP2_COLUMNS = [c + i for c in (4, 21, 38) for i in (0, 1, 2, 6, 7, 8, 9, 10, 11)]
WINDOW, STEP = 256, 128  # samples at 100 Hz, as in PFLlib


class NaturalSet(NamedTuple):
    """Archive of a data set, and its reader."""

    source: str  # address of the archive, or of the script that makes it
    archive: str  # file in --manual_dir
    inside: str  # the folder of the archive that is read
    read: Callable[[archives.ArchiveFiles], Parts]
    tokens: tuple[str, ...] = ()  # vocabulary; () if inputs are no tokens


def table(files: archives.ArchiveFiles, name: str) -> np.ndarray:
    """Reads a file of numbers separated by blanks, [rows, columns]."""
    if name not in files.names:
        raise UserError(f"{files.where}: {name} is missing. Download it again.")
    try:
        return np.loadtxt(io.BytesIO(files.read(name)), np.float32, ndmin=2)
    except ValueError as error:
        raise UserError(
            f"{files.where}, file {name}, cannot be read ({error}). It is damaged: "
            "download it again."
        ) from error


def read_har(files: archives.ArchiveFiles) -> Parts:
    """Reads the windows of both official parts of UCI-HAR."""
    parts = {}
    for split in ("train", "test"):
        root = f"UCI HAR Dataset/{split}"
        signals = [
            table(files, f"{root}/Inertial Signals/{signal}_{split}.txt")
            for signal in HAR_SIGNALS
        ]
        label = table(files, f"{root}/y_{split}.txt")[:, 0].astype(int)
        person = table(files, f"{root}/subject_{split}.txt")[:, 0].astype(int)
        lengths = {len(part) for part in (*signals, label, person)}
        activities = sorted({*label.tolist()})
        if len(lengths) > 1 or not {*activities} <= {*range(1, 7)}:
            raise UserError(
                f"{files.where}: the files of {root} have {sorted(lengths)} rows and "
                f"activities {activities}, but need one number of rows and "
                "activities from 1 to 6. Download it again."
            )
        names = np.array(HAR_ACTIVITIES)[label - 1]
        parts[split] = np.stack(signals, -1), names, person
    return parts


def read_pamap2(files: archives.ArchiveFiles) -> Parts:
    """Reads PAMAP2's recordings, and cuts them into overlapping windows."""
    matches = files.matching(r"PAMAP2_Dataset/(Protocol|Optional)/subject(\d+)\.dat")
    windows, labels, people = [], [], []
    for person in sorted({match[2] for match in matches}):
        recordings = [table(files, m[0]) for m in matches if m[2] == person]
        if any(recording.shape[1] != 54 for recording in recordings):
            raise UserError(
                f"{files.where}: a recording of person {person} has not 54 columns. "
                "Download it again."
            )
        own_windows, activities = zip(*map(cut, recordings), strict=True)
        x = np.concatenate(own_windows)
        if len(x):
            scale = x.std((0, 1)) + 1e-6
            windows.append((x - x.mean((0, 1))) / scale)
            labels += [PAMAP2_ACTIVITIES[a] for a in np.concatenate(activities)]
            people += [int(person)] * len(x)
    if not windows:
        raise UserError(
            f"{files.where}: no window of {WINDOW} samples of one activity in "
            "PAMAP2_Dataset/Protocol/subject*.dat. Download it again."
        )
    x = np.concatenate(windows).astype(np.float32)
    return {"train": (x, np.array(labels), np.array(people))}


def cut(recording: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a recording into windows of one activity each.

    Args:
      recording: samples [T, 54], the columns of PAMAP2's files.

    Returns:
      Windows [N, WINDOW, 27] and their activities [N].
    """
    time = np.arange(len(recording))
    activity = recording[:, 1].astype(int)
    channels = recording[:, PAMAP2_COLUMNS]
    for column in channels.T:
        known = np.isfinite(column)
        if known.any():
            column[~known] = np.interp(time[~known], time[known], column[known])
    channels = np.nan_to_num(channels)
    starts = [
        start
        for start in range(0, len(recording) - WINDOW + 1, STEP)
        if activity[start] in PAMAP2_ACTIVITIES
        and (activity[start : start + WINDOW] == activity[start]).all()
    ]
    x = [channels[start : start + WINDOW] for start in starts]
    empty = np.empty((0, WINDOW, channels.shape[1]), np.float32)
    return np.stack(x) if x else empty, activity[starts]


UCI = "Download: https://archive.ics.uci.edu/dataset/"
LEAF = (
    "Make it by preprocess.sh: https://github.com/TalwalkarLab/leaf/tree/master/data/"
)
SETS = {
    "uci_har": NaturalSet(
        f"{UCI}240", "UCI HAR Dataset.zip", "UCI HAR Dataset", read_har
    ),
    "pamap2": NaturalSet(
        f"{UCI}231", "PAMAP2_Dataset.zip", "PAMAP2_Dataset", read_pamap2
    ),
    "femnist": NaturalSet(f"{LEAF}femnist", "femnist.zip", "data", read_femnist),
    "shakespeare": NaturalSet(
        f"{LEAF}shakespeare", "shakespeare.zip", "data", read_shakespeare, CHARACTERS
    ),
}


def prepare(
    name: str, manual_dir: pathlib.Path, data_dir: pathlib.Path, min_examples: int = 10
) -> list[str]:
    """Writes the npz file of a data set; returns lines on the file and its use.

    Args:
      name: a key of SETS.
      manual_dir: folder with the archive, or with the folder that it was unpacked to.
      data_dir: folder of the file NAME.npz.
      min_examples: sources with fewer examples are left out; 2 at least, one to train
        and one to test.
    """
    data = SETS[name]
    if min_examples < 2:
        raise UserError(f"min_examples is {min_examples}. Give at least 2.")
    archive, folder = manual_dir / data.archive, manual_dir / data.inside
    if not archive.is_file() and not folder.exists():
        raise UserError(
            f"{name}: neither {archive} nor {folder} is there. Download the data set, "
            "put it there and give the folder as --manual_dir."
        )
    path = archive if archive.is_file() else manual_dir
    with archives.open_archive(path, data.inside) as files:
        parts = data.read(files)
    size = Counter(
        source for *_, domain in parts.values() for source in domain.tolist()
    )
    kept = [source for source, examples in size.items() if examples >= min_examples]
    arrays: dict[str, Any] = {}
    if data.tokens:
        arrays["tokens"] = np.array(data.tokens)
    for split, part in parts.items():
        rows = np.isin(part[2], kept)
        if rows.any():
            for key, array in zip(("x", "y", "domain"), part, strict=True):
                arrays[f"{key}_{split}"] = array[rows]
    if "x_train" not in arrays:
        raise UserError(
            f"{name}: none of {len(size)} sources has {min_examples} examples, some of "
            "them for training. Give a smaller --min_examples."
        )
    np.savez(content := io.BytesIO(), **arrays)
    file = data_dir / f"{name}.npz"
    with atomic.write_errors(file, 0):
        data_dir.mkdir(parents=True, exist_ok=True)
    if file.exists() and not atomic.has_content(file, content.getvalue()):
        raise UserError(
            f"{file} exists and has other content. Nothing was changed: move it away, "
            "or give another folder as --data_dir."
        )
    atomic.write(file, content.getvalue())
    examples = sum(size[source] for source in kept)
    lines = [f"{name}: {examples} examples of {len(kept)} sources in {file}"]
    if dropped := len(size) - len(kept):
        lines.append(f"note: {dropped} sources have too few examples, left out")
    use = f"--config.data.name=npz:{file} --config.data.partition=feature"
    return [*lines, f"use it: {use} --config.data.clients={len(kept)}"]
