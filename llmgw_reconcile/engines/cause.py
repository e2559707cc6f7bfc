"""Find in an engine's log why it ended, and say it in plain words: the root cause, not merely the last line.

vLLM's last line after a failed load is always the same sentence; the cause stands 30 to 200 lines above it, in a line
of level ERROR or at the end of a traceback. SGLang and llama-server write theirs near the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

LINE_LIMIT = 400


class Cause(NamedTuple):
    """The log's own line, what it means, and the next step; empty where nothing was found."""

    line: str = ""
    meaning: str = ""
    hint: str = ""


class KnownCause(NamedTuple):
    """A line that was seen (`seen`: engine and version), what it means and what to do."""

    patterns: tuple[str, ...]  # regular expressions
    meaning: str
    hint: str
    seen: str


# Tried in this order over the candidate lines: the first that matches explains the end.
KNOWN_CAUSES = (
    KnownCause(
        (
            r"No available memory for the cache blocks",
            r"Available memory on node",
            r"KV cache is needed",
            r"larger than the maximum number of tokens that can be stored in KV cache",
        ),
        "the KV cache does not fit into what the weights leave",
        "lower max_model_len, raise gpu_memory_utilization, or use more GPUs",
        "vLLM 0.32",
    ),
    KnownCause(
        (
            r"OutOfMemoryError",
            r"CUDA out of memory",
            r"HIP out of memory",
            r"Free memory on device .* is less than desired",
        ),
        "the GPU had too little free memory",
        "look who holds it (`llmgw status`), lower gpu_memory_utilization, or use more GPUs",
        "vLLM 0.32, SGLang 0.5.23",
    ),
    KnownCause(
        (
            r"[Aa]ddress already in use",
            r"EADDRINUSE",
            r"couldn't bind HTTP server socket",
        ),
        "another process took the port",
        "see who listens on it with `ss -ltnp`, or choose another port",
        "vLLM 0.32, SGLang 0.5.23, llama-server b10434",
    ),
    KnownCause(
        (
            r"unrecognized arguments",
            r"error: unknown argument",
            r"invalid argument: ",
            r"error: argument ",
        ),
        "the installed engine does not know a flag or a value",
        "compare `args` with the engine's --help; flags change from release to release",
        "vLLM 0.32, SGLang 0.5.23, llama-server b10434",
    ),
    KnownCause(
        (
            r"gated repo",
            r"GatedRepoError",
            r"401 Client Error",
            r"Access to model .* is restricted",
        ),
        "the model is gated, or the token may not read it",
        "give HF_TOKEN by reference in `env`, and accept the model's licence on the hub",
        "vLLM 0.32",
    ),
    KnownCause(
        (
            r"We couldn't connect to 'https://huggingface.co'",
            r"LocalEntryNotFoundError",
            r"RepositoryNotFoundError",
            r"is not a local folder and is not a valid model",
            r"failed to open GGUF file",
            r"No such file or directory.*\.gguf",
        ),
        "the model is not there",
        "check `model`: a hub id needs the network or a filled cache, a path must exist on this node",
        "vLLM 0.32, llama-server b10434",
    ),
    KnownCause(
        (
            r"Unknown quantization method",
            r"quantization method .* is not supported",
            r"Cannot find the config file for",
            r"Minimum capability:",
        ),
        "the engine cannot run this quantization here",
        "check `quantization` against the checkpoint, the engine's version and the GPU",
        "vLLM 0.32",
    ),
    KnownCause(
        (
            r"must be divisible by tensor parallel size",
            r"cannot be evenly divided",
            r"is not divisible by tp_size",
            r"attention heads.*divisible",
        ),
        "tensor_parallel_size does not divide the model",
        "choose a tensor_parallel_size that divides its attention heads",
        "vLLM 0.32",
    ),
    KnownCause(
        (r"World size .* is larger than the number of available GPUs",),
        "the engine sees fewer GPUs than it needs",
        "check the sizes, and that the driver sees every card (`llmgw agent inventory`)",
        "vLLM 0.33",
    ),
    KnownCause(
        (r"User-specified max_model_len .* is greater than",),
        "max_model_len is longer than the model's context",
        "lower max_model_len to what the message names",
        "vLLM 0.32",
    ),
    KnownCause(
        (
            r"not within the file bounds",
            r"incomplete or corrupted",
            r"Error while deserializing header",
            r"model is corrupted",
            r"invalid magic",
        ),
        "the weights are truncated or damaged",
        "fetch the model again; its file is shorter than its header says",
        "vLLM 0.32, llama-server b10434",
    ),
    KnownCause(
        (
            r"unable to (open|write) (file|shared memory)",
            r"No space left on device",
            r"/dev/shm",  # noqa: S108 - a word in a log, no file of ours
        ),
        "shared memory or the disk is full",
        "look at `df -h` and the size of /dev/shm",
        "vLLM 0.32",
    ),
    KnownCause(
        (
            r"NCCL error",
            r"ncclUnhandledCudaError",
            r"ncclSystemError",
            r"ncclInternalError",
            r"NCCL WARN",
        ),
        "the GPUs could not talk to each other",
        "start it once with NCCL_DEBUG=INFO in `env`, and read which transport fails",
        "vLLM 0.32",
    ),
)

# Sentences that announce a cause and are none, and lines that merely mention errors.
NO_CAUSE = re.compile(
    r"See root cause above|See stack trace \(above\)|Engine core initialization failed|validation errors? for "
    r"|Traceback \(most recent call last\)|Found ulimit of|cleaning up before exit|exiting due to|warnings\.warn\("
)
PREFIX = re.compile(r"^\((?:APIServer|EngineCore|Worker)[^)]*\)\s*")
STAMP = re.compile(r"^(?:ERROR|CRITICAL|FATAL|E)?\s*(?:\d{2}-\d{2} \d{2}:\d{2}:\d{2}\s*)?(?:\[[\w./:<>-]+\])?\s*:?\s*")
LEVEL = re.compile(r"(?:^|[\s\])])(?:ERROR|CRITICAL|FATAL)\b|^[\d.]+ E ")
# The last alternative is pydantic's, one line below its "1 validation error for".
EXCEPTION = re.compile(r"^(?:(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b|Value error,)")
PLAIN = re.compile(r"\berror\b[: ]", re.IGNORECASE)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FRAME = re.compile(r"^\s*(?:File \"|[~^]+\s*$|\.\.\.)")


def find_cause(log: str, *, exit_signal: str | None = None) -> Cause:
    """The cause of an end in the end of a log.

    >>> find_cause("INFO loading\\nERROR [core.py:42] ValueError: No available memory for the cache blocks.").line
    'ValueError: No available memory for the cache blocks.'
    """
    lines = [_clean(line) for line in log.replace("\r", "\n").split("\n")]
    candidates = _candidates([line for line in lines if line])
    for known in KNOWN_CAUSES:
        line = next((c for c in candidates if any(re.search(p, c) for p in known.patterns)), None)
        if line is not None:
            return Cause(_strip(line), known.meaning, known.hint)
    by_signal = _by_signal(exit_signal)
    if candidates or by_signal[0]:
        return Cause(_strip(candidates[0]) if candidates else by_signal[0], *by_signal)
    return Cause(_last_words(lines))


def _candidates(lines: Sequence[str]) -> list[str]:
    """Lines that may name the cause, the most telling first: by level, by exception, then by word."""
    by_level = [line for line in lines if LEVEL.search(line)]
    by_exception = [line for line in lines if EXCEPTION.search(_strip(line))]
    # Behind ERROR the engines print whole tracebacks, frame by frame: the exception's own line tells most.
    telling = [line for line in by_level if EXCEPTION.search(_strip(line))]
    others = [line for line in by_level if not FRAME.search(_strip(line)) and line not in telling]
    plain = [line for line in lines if PLAIN.search(line)]
    # The first exception of the last start is the cause; those behind it report that it happened.
    return [line for line in (*telling, *by_exception, *others, *plain) if not NO_CAUSE.search(line)]


def _clean(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in ESCAPE.sub("", line)).rstrip()


def _strip(line: str) -> str:
    """The line without the engine's own prefixes."""
    return STAMP.sub("", PREFIX.sub("", line.strip()), count=1).strip()[:LINE_LIMIT]


def _last_words(lines: Sequence[str]) -> str:
    """What to show where no line names a cause: the last exception, however vague, else the last line."""
    vague = [line for line in lines if EXCEPTION.search(_strip(line))]
    last = vague or [line for line in lines if line.strip()]
    return _strip(last[-1]) if last else ""


def _by_signal(name: str | None) -> tuple[str, str]:
    if name == "SIGKILL":
        return "killed from outside; possibly by the kernel for want of memory", "look for `Out of memory` in `dmesg`"
    if name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL"):
        return f"the engine itself crashed ({name})", "look at `dmesg` and the engine's own bug reports"
    return "", ""
