"""Show in `ps` what a forked supervisor is for: its engine and GPUs, where every user can see them."""

from __future__ import annotations

RESERVED = 1500  # bytes of an argument that the template is started with, for the title to be written over


def set_title(title: str) -> None:
    """Overwrite this process's own argument area (proc_pid_stat(5), fields 48 and 49), where that can be done."""
    try:
        with open("/proc/self/stat", "rb") as file:
            text = file.read()
        fields = text[text.rfind(b")") + 2 :].split()
        start, end = int(fields[45]), int(fields[46])
        data = title.encode()[: end - start - 1].ljust(end - start, b"\0")
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(data)
        with open("/proc/self/comm", "wb", buffering=0) as name:
            name.write(b"llmgw-sup")
    except (OSError, ValueError, IndexError):
        return
