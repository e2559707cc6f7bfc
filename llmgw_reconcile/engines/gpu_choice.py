"""What a command and its environment say about GPUs to the names of those that an engine really uses."""

from __future__ import annotations

from collections.abc import Mapping

DEVICE_IDS, FIRST, STEP = "--device-ids", "--base-gpu-id", "--gpu-id-step"


def visible_gpus(value: str | None) -> tuple[str, ...] | None:
    """The names in CUDA_VISIBLE_DEVICES; None when it is not set, which shows all, empty when it hides them all.

    Names end at the first that CUDA does not take (CUDA C programming guide, environment variables): -1 hides all.
    """
    if value is None:
        return None
    names: list[str] = []
    for name in (part.strip() for part in value.split(",")):
        if not name or name.startswith("-"):
            break
        names.append(name)
    return tuple(names)


def chosen_gpus(visible: tuple[str, ...] | None, flags: Mapping[str, str], need: int) -> tuple[str, ...] | None:
    """The GPUs that are used, in their order, at most `need`; None when neither says which.

    vLLM's --device-ids and SGLang's --base-gpu-id count among the visible ones.
    """
    if names := flags.get(DEVICE_IDS):
        wanted = tuple(names.split(","))
        if visible is not None and all(name.isdecimal() and int(name) < len(visible) for name in wanted):
            wanted = tuple(visible[int(name)] for name in wanted)
        return wanted[:need]
    first, step = flags.get(FIRST, "0"), flags.get(STEP, "1")
    if not (first.isdecimal() and step.isdecimal() and int(step)):
        return None
    if visible is not None:
        return visible[int(first) :: int(step)][:need]
    if FIRST in flags or STEP in flags:
        return tuple(str(int(first) + int(step) * place) for place in range(need))
    return None
