"""Tell by its name whether a variable, field or flag carries a secret."""

from __future__ import annotations

import re

# `hft` is llama-server's short form of --hf-token.
_SECRET_WORDS = frozenset(
    {"apikey", "credential", "credentials", "hft", "key", "passphrase", "passwd", "password", "secret", "token"}
)


def names_a_secret(name: str) -> bool:
    """Whether its last word is one for a secret: a count of tokens, a key's file or an access key's id is none.

    >>> names_a_secret("HF_TOKEN"), names_a_secret("--api-key"), names_a_secret("--max-num-batched-tokens")
    (True, True, False)
    """
    return re.split(r"[-_.]", name.lower())[-1] in _SECRET_WORDS
