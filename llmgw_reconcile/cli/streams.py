"""Write to the standard streams, so that a reader who has gone keeps no command from its work or its exit code."""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

from llmgw_reconcile.errors import NodeError

GONE = (errno.EPIPE, errno.EIO)  # the reader of a pipe ended; a terminal was closed


def write(text: str, *, err: bool = False) -> None:
    """Write text as it is, at once; a reader that has gone is no failure. Raises NodeError for a full disk and such."""
    stream = sys.stderr if err else sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        silence(stream)
        if error.errno not in GONE:
            raise NodeError(f"cannot write to standard {'error' if err else 'output'}: {error.strerror}") from None


def silence(stream: TextIO) -> None:
    """Let everything further, and what is still to be flushed, go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
