"""See that a file has changed, however it was written: in place, by a rename over it, or by another link to it.

Nothing but stat(2) on its name, which follows every link on the way: it works on network and overlay file systems,
where inotify tells nothing of what others do, and it needs no descriptor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from llmgw_reconcile.host.clock import Clock

LOOK_SECONDS = 1.0  # between two looks
SETTLE_SECONDS = 0.3  # a file that changed must stay as it is for so long: editors write, rename and set modes
LONGEST_SETTLE_SECONDS = 3.0  # one that is written all the time is taken as it is

Stamp = tuple[int, ...] | None  # None: there is no such file


class FileWatch:
    """Watches the files that it is told to; the caller calls `look` when `look_at` has come."""

    def __init__(self, clock: Clock, paths: Iterable[str] = (), stamp_of: Callable[[str], Stamp] | None = None) -> None:
        self._clock = clock
        self._stamp_of = stamp_of or file_stamp
        self._stamps: dict[str, Stamp] = {}
        self._restless_since: float | None = None
        self.look_at = 0.0
        self.watch(paths)

    @property
    def is_settling(self) -> bool:
        """Whether a change was seen that has not come to rest yet."""
        return self._restless_since is not None

    def watch(self, paths: Iterable[str]) -> None:
        """These files from now on, as they are now; those that were watched before are not looked at anew."""
        self._stamps = {path: self._stamps.get(path, self._stamp_of(path)) for path in paths}

    def look(self) -> bool:
        """Whether a file changed since the last True, and has come to rest."""
        now = self._clock.monotonic()
        stamps = {path: self._stamp_of(path) for path in self._stamps}
        if stamps != self._stamps:
            self._restless_since = now if self._restless_since is None else self._restless_since
            self._stamps = stamps
            if now - self._restless_since < LONGEST_SETTLE_SECONDS:
                self.look_at = now + SETTLE_SECONDS
                return False
        self.look_at = now + LOOK_SECONDS
        was_restless, self._restless_since = self._restless_since is not None, None
        return was_restless


def file_stamp(path: str) -> Stamp:
    """What differs when a file was changed or exchanged; the time of change (ctime) cannot be set back."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
