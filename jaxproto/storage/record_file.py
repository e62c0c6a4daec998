"""Records of a run in training."""

import json
from collections.abc import Mapping
from pathlib import Path

from jaxproto.io import atomic
from jaxproto.storage import records


class RecordFile:
    """Records of a run in training, in memory and in a JSON-lines file.

    If the file was removed or changed by others, it is written anew from memory.
    Methods raise `Unwritable` if writing fails, for example on a full disk.
    """

    def __init__(self, path: Path, history: list[dict]):
        """Stores the records that the file has now."""
        self._path, self.records = path, history
        self._size = self._size_on_disk()

    def append(self, record: Mapping):
        """Adds a record."""
        self.restore()
        records.append(self._path, record)
        self.records.append(records.to_json_values(record))
        self._size = self._size_on_disk()

    def restore(self):
        """Writes the records anew if the file has another size."""
        if self._size_on_disk() != self._size:
            lines = [json.dumps(record) + "\n" for record in self.records]
            atomic.write(self._path, "".join(lines).encode())
            self._size = self._size_on_disk()

    def _size_on_disk(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0
