"""Turn the driver's name and memory of a card into its scheduling class: a short model name and GiB.

The driver's memory decides, not the one on the box: an engine that believed the 48 GB of an L40S would not fit.
"""

from __future__ import annotations

import re

UNKNOWN = "unknown"  # a card newer than its driver has no name of its own

BRANDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "grid", "gpu", "graphics", "device"})
# Forms of one model that a scheduler need not tell apart: sockets, memory kinds, coolings, architectures.
FORMS = frozenset(
    {"pcie", "nvl", "generation", "edition", "server", "workstation", "blackwell", "design", "with", "active"}
)
FORM_PATTERN = r"\d+gb?|sxm\d*|hbm\d*e?"
SERIES = frozenset({"rtx", "gtx", "gt", "gts", "mx", "nvs", "cmp"})  # the number alone names no model
VARIANTS = frozenset({"laptop", "maxq"})

# A virtual GPU: model, number of MIG slices behind it, GB of its frame buffer, licence (NVIDIA vGPU user guide).
VGPU_PATTERN = r"(.+?)(?:-\d+)?-\d+[abcq](?:me)?"
# A part of a MIG device (1c.3g.40gb) shares its memory with others: it is not equal to the whole one either.
MIG_PATTERN = r"(.+?) mig ((?:\d+c\.)?\d+g\.\d+gb[a-z0-9.+-]*)"


def gpu_class(name: str | None, memory_mb: int | None) -> str:
    """The class of a card; `?` stands for memory that the driver does not give.

    A part of a card never has the class of the whole one: MIG devices are named by their profile, virtual GPUs begin
    with `vgpu-`.

    >>> gpu_class("NVIDIA H100 80GB HBM3", 81559)
    'h100-80g'
    >>> gpu_class("NVIDIA L40S", 46068)
    'l40s-45g'
    >>> gpu_class("NVIDIA GeForce RTX 4080 SUPER", 16376)
    'rtx4080super-16g'
    >>> gpu_class("NVIDIA Thor", None)
    'thor-?'
    """
    plain = (name or "").lower()
    if mig := re.fullmatch(MIG_PATTERN, plain):
        return f"{_model(mig[1]) or UNKNOWN}-mig-{mig[2]}"
    model = _vgpu_model(plain) or _model(plain)
    return f"{model}-{_gib(memory_mb)}" if model else UNKNOWN


def _gib(memory_mb: int | None) -> str:
    """MiB as the nearest GiB, half up; round() would go to the even neighbour."""
    return f"{(memory_mb + 512) // 1024}g" if memory_mb else "?"


def _vgpu_model(name: str) -> str:
    bare = " ".join(word for word in name.split() if word not in BRANDS)
    match = re.fullmatch(VGPU_PATTERN, bare)
    if not match:
        return ""
    model = re.sub(r"[^a-z0-9]", "", str(match[1]))
    model = re.sub(r"^rtx(?=a\d)", "", model)
    board = re.fullmatch(r"([a-z]+\d+)(?:xm|dx|d|l|x)", model)  # memory and socket of the board behind it
    return f"vgpu-{board[1] if board else model}" if model else ""


def _model(name: str) -> str:
    """The short model name; empty when the name has none."""
    outside = re.sub(r"\(.*?\)", " ", name)
    words: list[str] = re.findall(r"[a-z0-9]+", outside.replace("max-q", "" if "edition" in outside else "maxq"))
    kept = [w for w in words if w not in BRANDS and w not in FORMS and not re.fullmatch(FORM_PATTERN, w)]
    if "titan" in kept:
        architecture = re.search(r"\(([a-z0-9]+)\)", name)  # two cards are called TITAN X
        return "".join(kept[kept.index("titan") :]) + (f"-{architecture[1]}" if architecture else "")
    if kept and kept[0] in SERIES:
        return _series_model(kept, is_quadro="quadro" in words)
    numbered = next((position for position, word in enumerate(kept) if re.search(r"\d", word)), None)
    if numbered is None:
        return "".join(kept)
    return kept[numbered] + "".join(word for word in kept[numbered + 1 :] if word in VARIANTS)


def _series_model(kept: list[str], *, is_quadro: bool) -> str:
    """`rtx 4070 ti` and the like: all words count, as Ti, SUPER, D, Ada and Laptop are other cards.

    An RTX A6000 is known as A6000.
    """
    if len(kept) > 1 and re.fullmatch(r"a\d+", kept[1]):
        return "".join(kept[1:])
    # The Quadro RTX 6000 is a Turing card, the RTX 6000 Ada and the RTX PRO 6000 are not.
    return ("quadro-" if is_quadro else "") + "".join(kept)
