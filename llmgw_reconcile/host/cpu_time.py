"""How much processor time processes have used: whoever uses some is at work, whatever it answers."""

from __future__ import annotations

import os
from collections.abc import Iterable


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes together (proc_pid_stat(5), fields 14 and 15); those gone count none."""
    return sum(map(_ticks, pids)) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
        fields = text[text.rfind(b")") + 2 :].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return 0
