"""Turn a running engine and its own record into how the two differ: the live process is not what was started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.launch import SECRET_TEXT
from llmgw_reconcile.model.observed import ObservedEngine, Phase
from llmgw_reconcile.model.secret_names import names_a_secret

FLAGS_NAMED = 3  # in a message; the others are counted
ANY = "\0"  # stands before the end of a word of which the record knows no more


def drift_of(seen: ObservedEngine, gpus: Iterable[Gpu]) -> tuple[Diagnostic, ...]:
    """A warning for each way in which a serving engine is not what its record says; it is left alone all the same.

    `gpus` are the node's cards. What is not known of either side is not compared.
    """
    if seen.phase not in (Phase.READY, Phase.DEGRADED) or seen.launch is None:
        return ()
    hint = f"`llmgw restart {seen.engine}` starts it as recorded"
    words = (
        *_command_drift(seen, seen.launch),
        *_version_drift(seen, seen.launch),
        *_context_drift(seen),
        *_gpu_drift(seen, gpus),
    )
    return tuple(Diagnostic(Severity.WARNING, "drift", seen.engine, one, hint) for one in words)


def _command_drift(seen: ObservedEngine, launch: Mapping[str, Any]) -> Iterator[str]:
    prefix = (seen.spec or {}).get("prefix") or ()
    recorded = [_word(item) for item in launch.get("argv") or ()][len(prefix) :]
    if not seen.command or not recorded or _ends_with(seen.command, recorded[1:]):
        return
    different = tuple(_flag_differences(seen.command, recorded, EngineKind(launch["kind"])))
    if different:
        more = f"; and {len(different) - FLAGS_NAMED} more" if len(different) > FLAGS_NAMED else ""
        yield f"its command line is not the recorded one: {'; '.join(different[:FLAGS_NAMED])}{more}"


def _version_drift(seen: ObservedEngine, launch: Mapping[str, Any]) -> Iterator[str]:
    """Its supervisor restarted it after another version was installed in its place."""
    recorded = launch.get("engine_version")
    if recorded is None or seen.version is None or recorded == seen.version:
        return
    from llmgw_reconcile.engines.version import is_same

    if not is_same(recorded, seen.version):
        yield f"version {seen.version} runs, and its record says {recorded}"


def _context_drift(seen: ObservedEngine) -> Iterator[str]:
    recorded = (seen.spec or {}).get("max_model_len")
    if None not in (recorded, seen.context) and recorded != seen.context:
        yield f"it takes a context of {seen.context} tokens, and its record says {recorded}"


def _gpu_drift(seen: ObservedEngine, gpus: Iterable[Gpu]) -> Iterator[str]:
    for gpu in gpus:
        if gpu.uuid not in seen.gpus and any(holder.engine == seen.engine for holder in gpu.holders):
            yield f"it holds memory on {gpu.label}, which its record does not name"


def _flag_differences(live: Sequence[str], recorded: Sequence[str], kind: EngineKind) -> Iterator[str]:
    """Each flag that differs, in one spelling, with both sides of it."""
    from llmgw_reconcile.engines.normalise import behind_entry, differences, normalise  # rarely needed

    is_, was = (normalise(behind_entry(words, recorded[0]), kind) for words in (live, recorded))
    for flag, now, then in differences(is_, was):
        if now is None or then is None or len(now) != len(then) or not _ends_with(now, then):
            yield f"{flag or 'words without a flag'} is {_shown(flag, now)}, recorded {_shown(flag, then)}"


def _word(item: Any) -> str:
    """A recorded word; of a file its copy's name is known (`…-NAME`), of a secret nothing."""
    if isinstance(item, str):
        return item
    return ANY + "-" + str(item["file"]).rpartition("/")[2] if "digest" in item else ANY


def _ends_with(live: Sequence[str], recorded: Sequence[str]) -> bool:
    start = len(live) - len(recorded)
    if start >= 0 and tuple(live[start:]) == tuple(recorded):
        return True  # nearly always
    return start >= 0 and all(_is_like(word, known) for word, known in zip(live[start:], recorded, strict=True))


def _is_like(live: str, recorded: str) -> bool:
    return live.endswith(recorded[1:]) if recorded.startswith(ANY) else live == recorded


def _shown(flag: str, values: Sequence[str] | None) -> str:
    if values is None:
        return "absent"
    return SECRET_TEXT if names_a_secret(flag) else " ".join(value.replace(ANY, "…") for value in values)
