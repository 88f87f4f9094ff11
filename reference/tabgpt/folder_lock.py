"""One process trains in a folder: two would replace each other's checkpoints and metrics.

flock(2) on the folder itself leaves no file behind, and the system lets go of it
when the process ends, however it ends. Runs of one process share the lock.
"""

from __future__ import annotations

import os
import sys
import weakref
from pathlib import Path

from .errors import CheckpointError

if sys.platform != "win32":
    import fcntl


class FolderLock:
    """Held while this object lives."""

    def __init__(self, descriptor: int) -> None:
        weakref.finalize(self, os.close, descriptor)


_held: weakref.WeakValueDictionary[tuple[int, int], FolderLock] = weakref.WeakValueDictionary()
"""By device and inode of the folder."""


def lock_folder(folder: Path) -> FolderLock | None:
    """The lock; CheckpointError where another process has it.

    None where the system has no flock (Windows) or the file system refuses it (some NFS).
    """
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise CheckpointError(f"cannot open the folder {folder}: {error.strerror}") from None
    status = os.fstat(descriptor)
    ours = _held.get((status.st_dev, status.st_ino))
    if ours is not None:
        os.close(descriptor)
        return ours
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise CheckpointError(
                f"another process trains in {folder}, and two would overwrite each other's "
                f"checkpoints: wait for its end, stop it, or choose another --out"
            ) from None
        return None
    lock = _held[status.st_dev, status.st_ino] = FolderLock(descriptor)
    return lock
