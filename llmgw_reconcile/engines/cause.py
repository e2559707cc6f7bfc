"""Find in an engine's log why it ended, and say it in plain words: the root cause, not merely the last line.

vLLM's last line after a failed load is always the same sentence; the cause stands 30 to 200 lines above it, in a line
of level ERROR or at the end of a traceback. SGLang and llama-server write theirs near the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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


# The first of them that explains the most telling line of a log, or the next most telling one, explains the end.
KNOWN_CAUSES = (
    KnownCause(
        (
            r"No available memory for the cache blocks",
            r"Available memory on node",
            r"KV cache is needed",
            r"Not enough memory\. Please try to increase --mem-fraction-static",
            r"larger than the maximum number of tokens that can be stored in KV cache",
        ),
        "the KV cache does not fit into what the weights leave",
        "lower max_model_len, raise gpu_memory_utilization, or use more GPUs",
        "vLLM 0.32, SGLang 0.4",
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
            r"quantization\b.*\bnot supported",
            r"fp8e4nv not supported",
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
            r"MetadataIncompleteBuffer",
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
    KnownCause(
        (
            r"engine core exited unexpectedly",
            r"EngineDeadError",
            r"Executor failed\.",
            r"Subprocess \S+ \(pid=\d+\) crashed",
            r"WorkerProc hit an exception",
        ),
        "a process of the engine died under it",
        "look for `Out of memory` in `dmesg`: the kernel ends the largest process first",
        "vLLM 0.32, SGLang 0.5.23",
    ),
)

# Sentences that announce a cause and are none, ends that were asked for, and lines that merely mention errors.
NO_CAUSE = re.compile(
    r"See root cause above|See stack trace for root cause|Engine core initialization failed|failed to start\.$"
    r"|validation errors? for |Traceback \(most recent call last\)|CancelledError|KeyboardInterrupt|Found ulimit of"
    r"|cleaning up before exit|exiting due to|warnings\.warn\("
)
# An engine that answered a request was well at that time: what it had logged before is another story.
ANSWERED = re.compile(r'HTTP/1\.[01]" 200\b|done request: .* 200$')
PREFIXES = re.compile(
    r"""^(?:
      \(\w+(?:\ rank=\d+)?\ pid=\d+\)\s*                              # vLLM: the process
    | \[\d{4}-\d\d-\d\d[^\]]*\]\s*                                     # SGLang: time and rank
    | \d+\.\d\d\.\d{3}\.\d{3}\ [EWI]\s+                                 # llama-server: time and level
    | (?:ERROR|CRITICAL|FATAL)\b:?\s*(?:\d\d-\d\d\ [\d:]+\s*)?           # level, and vLLM's time
    | \[[\w./<>-]+:\d+\]\s*                                            # vLLM: file and line
    )+""",
    re.VERBOSE,
)
PYDANTIC = re.compile(r"\s*\[type=\w+, input_value=.*")  # the whole configuration stands there
LEVEL = re.compile(r"(?:^|[\s\])])(?:ERROR|CRITICAL|FATAL)\b|^[\d.]+ E ")
# The last alternative is pydantic's, one line below its "1 validation error for".
EXCEPTION = re.compile(r"^(?:(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?::|$)|Value error,)")
PLAIN = re.compile(r"\berror\b[: ]|\bcrashed with exit code\b|\bexited unexpectedly\b", re.IGNORECASE)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FRAME = re.compile(r"^\s*(?:File \"|[~^]+\s*$|\.\.\.)")


class Line(NamedTuple):
    """A line of a log, whole and without the engine's own prefixes."""

    whole: str
    bare: str


def find_cause(log: str, *, exit_signal: str | None = None) -> Cause:
    """The cause of an end in the end of a log.

    >>> find_cause("INFO loading\\nERROR [core.py:42] ValueError: No available memory for the cache blocks.").line
    'ValueError: No available memory for the cache blocks.'
    """
    lines = [_read(line) for line in ESCAPE.sub("", log).replace("\r", "\n").split("\n") if line.strip()]
    answered = max((number for number, line in enumerate(lines, 1) if ANSWERED.search(line.whole)), default=0)
    candidates = _candidates(lines[answered:]) or _candidates(lines)
    for line in candidates:
        for known in KNOWN_CAUSES:
            if any(re.search(pattern, line.whole) for pattern in known.patterns):
                return Cause(_short(line), known.meaning, known.hint)
    meaning, hint = _by_signal(exit_signal)
    if candidates or meaning:
        return Cause(_short(candidates[0]) if candidates else meaning, meaning, hint)
    return Cause(_last_words(lines))


def _candidates(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Lines that may name the cause, the most telling first: by level, by exception, then by word.

    Of each kind the first one is the cause, and those behind it report that it happened.
    """
    by_level = [line for line in lines if LEVEL.search(line.whole)]
    # Behind ERROR the engines print whole tracebacks, frame by frame: the exception's own line tells most.
    telling = [line for line in by_level if EXCEPTION.search(line.bare)]
    exceptions = [line for line in lines if EXCEPTION.search(line.bare)]
    others = [line for line in by_level if not FRAME.search(line.bare)]
    plain = [line for line in lines if PLAIN.search(line.whole)]
    return tuple(dict.fromkeys(_causes((*telling, *exceptions, *others, *plain))))


def _causes(lines: Iterable[Line]) -> Iterable[Line]:
    return (line for line in lines if not NO_CAUSE.search(line.whole))


def _read(line: str) -> Line:
    whole = "".join(c if c.isprintable() else " " for c in line).rstrip()
    return Line(whole, PREFIXES.sub("", whole.strip()).strip())


def _short(line: Line) -> str:
    return PYDANTIC.sub("", line.bare)[:LINE_LIMIT]


def _last_words(lines: Sequence[Line]) -> str:
    """What to show where no line names a cause: the last exception, however vague, else the last line."""
    vague = [line for line in lines if EXCEPTION.search(line.bare)] or lines
    return _short(vague[-1]) if vague else ""


def _by_signal(name: str | None) -> tuple[str, str]:
    if name == "SIGKILL":
        return "killed from outside; possibly by the kernel for want of memory", "look for `Out of memory` in `dmesg`"
    if name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL"):
        return f"the engine itself crashed ({name})", "look at `dmesg` and the engine's own bug reports"
    return "", ""
