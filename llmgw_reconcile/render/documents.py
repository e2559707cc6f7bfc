"""Documents to text: the one way JSON is written, so that the same values give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

FORMAT_VERSION = 1


def document_text(document: Mapping[str, Any]) -> str:
    """Indented ASCII JSON with a newline at its end, keys in the order they were put in.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
