"""The program, arguments and variables of an engine back to the fields of an entry: the inverse of its command.

What no field expresses goes to `args` as it stands. A secret becomes a reference, since state files are committed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from llmgw_reconcile.engines.catalog import KINDS, default_executable
from llmgw_reconcile.engines.environment import RESERVED_PREFIX, RESERVED_VARIABLES
from llmgw_reconcile.engines.field_values import field_value
from llmgw_reconcile.engines.gpu_choice import DEVICE_IDS, FIRST, STEP, chosen_gpus, visible_gpus
from llmgw_reconcile.engines.kind import EngineFlag, Kind
from llmgw_reconcile.engines.program import Program
from llmgw_reconcile.engines.shell_words import Word
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.model.desired import EngineKind, SecretRef
from llmgw_reconcile.model.secret_names import names_a_secret

KEY_VARIABLES = {
    EngineKind.VLLM: "VLLM_API_KEY",
    EngineKind.SGLANG: "SGLANG_API_KEY",  # it reads none: a name for the reference
    EngineKind.LLAMA_CPP: "LLAMA_API_KEY",
}
_TOKEN_FLAGS, _TOKEN_VARIABLE = ("--hf-token", "-hft"), "HF_TOKEN"  # which vLLM and llama-server read as well
_FROM_THE_HUB = ("-hf", "-hfr", "--hf-repo")
_FROM_ELSEWHERE = ("-mu", "--model-url", "-dr", "--docker-repo")  # llama-server downloads it: no field says that
_SPLIT_MODE = "--split-mode"
_PATH = re.compile(r"[^\[{\s]*/\S*|[^\[{\s]+\.\w+")  # what may name a file, and what surely does
_FILE = re.compile(r"[^\[{\s]+\.(?:jinja2?|json|ya?ml|py|txt|gguf|safetensors)")
_USERINFO = re.compile(r"://[^/\s@]+@")
_NUMBER = re.compile(r"-[0-9.]+")


class Place(NamedTuple):
    """Where a command is given: `absolute` joins a path to its folder, `exists` asks for an absolute one."""

    absolute: Callable[[str], str]
    exists: Callable[[str], bool]

    def local(self, word: str) -> str | None:
        """The absolute path of what is a path by its looks or is there; None for anything else."""
        path = self.absolute(word)
        return path if word.startswith(("/", "./", "../")) or self.exists(path) else None


class Reading(NamedTuple):
    """What was read: JSON values by field, without a name; `remarks`: what to know or do about a field, by field."""

    kind: EngineKind
    fields: dict[str, Any]
    remarks: Mapping[str, str]


class _Flag(NamedTuple):
    """A flag and the words up to the next one."""

    written: str  # without a value
    name: str  # in full
    field: str  # of the state file; empty when none says the same
    values: tuple[Word, ...]
    words: tuple[Word, ...]  # all of it, as it stands


def read_command(program: Program, variables: Mapping[str, Word], place: Place) -> Reading:
    """The fields that tell this program what its arguments and `variables` tell it.

    Raises RefusedError when there is no model among them, or a value that only a shell knows.
    """
    reader = _Reader(program, place)
    reader.take_arguments(program.arguments)
    reader.take_variables(variables)
    if "model" not in reader.fields:
        title = KINDS[program.kind].title
        raise RefusedError(f"cannot tell which model {title} serves; write it right behind `serve`, or behind its flag")
    reader.take_gpus(variables.get("CUDA_VISIBLE_DEVICES"))
    return Reading(program.kind, reader.fields, {field: "\n".join(said) for field, said in reader.remarks.items()})


class _Reader:
    def __init__(self, program: Program, place: Place) -> None:
        self._kind, self._place = KINDS[program.kind], place
        self._is_llama = program.kind is EngineKind.LLAMA_CPP
        self._key_variable = KEY_VARIABLES[program.kind]
        self._engine = program.kind
        self._devices: dict[str, str] = {}  # what flags say about GPUs
        self.remarks: dict[str, list[str]] = {}
        self.fields: dict[str, Any] = {"engine": str(program.kind)}
        if program.executable != default_executable(program.kind):
            path = program.executable
            self.fields["executable"] = place.absolute(path) if "/" in path else path
        if program.prefix:
            self.fields["prefix"] = list(program.prefix)

    # -- arguments

    def take_arguments(self, arguments: tuple[Word, ...]) -> None:
        """Everything behind the program; the model may stand first, without a flag."""
        start = next((place for place, word in enumerate(arguments) if _is_flag(word)), len(arguments))
        args = list(map(_known, arguments[:start]))
        if args and not self._is_llama:
            self._take_model(args.pop(0))
        for flag in _flags(arguments[start:], self._kind):
            args += self._rest_of(flag)
        if args:
            self.fields["args"] = [self._with_path(word) for word in args]

    def _rest_of(self, flag: _Flag) -> list[str]:
        """Take a flag into its field; the words that stay for `args`."""
        if flag.values and self._takes(flag):
            takes_all = flag.field == "api_key" or (flag.field == "served_model_name" and not self._is_llama)
            behind = () if takes_all else flag.values[1:]
            if behind and not self._is_llama and "model" not in self.fields:  # argparse: the one without a flag
                self._take_model(_known(behind[0]))
                behind = behind[1:]
            return list(map(_known, behind))
        if names_a_secret(flag.written):
            self._take_secret(flag)
            return []
        words = list(map(_known, flag.words))
        if any(map(_USERINFO.search, words)):
            self._remark("args", f"{flag.written} was left out: there is a password in its value")
            return []
        return words

    def _takes(self, flag: _Flag) -> bool:
        """Whether a field could say it, which it then does."""
        if flag.field == "api_key":
            return self._take_key(flag.values)
        values = tuple(map(_known, flag.values)) if flag.field else ("",)
        if flag.field == "model":
            return flag.name not in _FROM_ELSEWHERE and self._take_model(values[0], flag.name)
        if flag.name in (DEVICE_IDS, FIRST, STEP, _SPLIT_MODE, "-sm"):
            self._devices[_SPLIT_MODE if flag.name == "-sm" else flag.name] = values[0]
            return True
        if flag.field == "device":
            return self._take_device(values[0])
        found = field_value(flag.field, values, self._engine)
        if found is not None:
            self.fields[flag.field] = found
        return found is not None

    def _take_model(self, value: str, flag: str = "") -> bool:
        """A path of this machine, or a name of the hub; clients of vLLM and SGLang know the model by just that."""
        is_file = self._is_llama and flag not in _FROM_THE_HUB
        path = self._place.absolute(value) if is_file else self._place.local(value)
        self.fields["model"] = value if path is None or flag in _FROM_THE_HUB else path
        if not self._is_llama:
            self.fields.setdefault("served_model_name", value)
        return True

    def _take_device(self, value: str) -> bool:
        if value in ("cpu", "none"):
            self.fields["device"] = "cpu"
        return value in ("cuda", "cpu", "none")

    def _take_key(self, values: tuple[Word, ...]) -> bool:
        name = values[0].name if isinstance(values[0], SecretRef) else self._key_variable
        self.fields["api_key"] = {"env": name}
        self._remark("api_key", _about_secret(name))
        if len(values) > 1:
            self._remark("api_key", "the command has several keys, of which this is the first")
        return True

    def _take_secret(self, flag: _Flag) -> None:
        if flag.written.replace("_", "-") in _TOKEN_FLAGS and flag.values:
            self._take_variable(_TOKEN_VARIABLE, flag.values[0])
        else:
            self._remark("args", f"{flag.written} was left out: its value is a secret, which no argument may hold")

    # -- variables and GPUs

    def take_variables(self, variables: Mapping[str, Word]) -> None:
        """Those that say what a field says go there, unless a flag said it already: flags have the last word."""
        fields = {name: flag.field for flag in self._kind.flags for name in flag.variables}
        for name, value in variables.items():
            if name in RESERVED_VARIABLES or name.startswith(RESERVED_PREFIX):
                continue
            flag = f"--{name.removeprefix('LLAMA_ARG_').lower().replace('_', '-')}"
            field = fields.get(name, "")
            if not (field and (field in self.fields or self._takes(_Flag(name, flag, field, (value,), ())))):
                self._take_variable(name, value)

    def _take_variable(self, name: str, value: Word) -> None:
        env = self.fields.setdefault("env", {})
        if names_a_secret(name) or (isinstance(value, str) and _USERINFO.search(value)):
            source = value.name if isinstance(value, SecretRef) else name
            env[name] = {"env": source}
            self._remark("env", _about_secret(source))
        else:
            env[name] = _known(value)

    def take_gpus(self, shown: Word | None) -> None:
        """The GPUs that CUDA_VISIBLE_DEVICES and flags name, if they are as many as the sizes need."""
        visible = visible_gpus(None if shown is None else _known(shown))
        if visible == ():
            self.fields["device"] = "cpu"
        on_cpu = self.fields.get("device") == "cpu"
        self._take_split(0 if on_cpu or visible is None else len(visible))
        need = math.prod(self.fields.get(f"{how}_parallel_size", 1) for how in ("tensor", "pipeline", "data"))
        ids = None if on_cpu else chosen_gpus(visible, self._devices, need)
        if ids is None:
            return
        if len(ids) == need:
            self.fields["gpus"] = {"ids": [int(name) if name.isdecimal() else name for name in ids]}
        else:
            self._remark(
                "model", f"its sizes need more GPUs ({need}) than the command names ({len(ids)}): none is named"
            )

    def _take_split(self, gpus: int) -> None:
        """llama-server divides a model over all GPUs that it sees, by layers unless it is told otherwise."""
        mode = self._devices.pop(_SPLIT_MODE, None)
        if self._is_llama and gpus > 1 and mode in (None, "row", "layer"):
            self.fields["tensor_parallel_size" if mode == "row" else "pipeline_parallel_size"] = gpus
        elif mode is not None:
            self.fields.setdefault("args", []).extend((_SPLIT_MODE, mode))

    # -- small things

    def _remark(self, field: str, sentence: str) -> None:
        if sentence not in self.remarks.setdefault(field, []):
            self.remarks[field].append(sentence)

    def _with_path(self, word: str) -> str:
        """An engine works in an empty folder of its own, so what names a file here must be absolute."""
        head, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        path = self._place.local(value) if _PATH.fullmatch(value) else None
        if path is None and _FILE.fullmatch(value):
            self._remark("args", f"{value} is not here; write its absolute path on the node")
        return word if path is None else f"{head}{equals}{path}"


def _flags(words: tuple[Word, ...], kind: Kind) -> Iterator[_Flag]:
    start = 0
    while start < len(words):
        end = next((place for place in range(start + 1, len(words)) if _is_flag(words[place])), len(words))
        written, value = _split(_known(words[start]), kind)
        values = words[start + 1 : end] if value is None else (value, *words[start + 1 : end])
        meant, name = _meaning(written, kind)
        yield _Flag(written, name, meant.field if meant else "", values, words[start:end])
        start = end


def _split(word: str, kind: Kind) -> tuple[str, str | None]:
    """`--port=9` and, of argparse, `-tp4`, as flag and value; None when the value is a word of its own."""
    flag, equals, value = word.partition("=")
    if equals:
        return flag, value
    if kind.abbreviates and not word.startswith("--"):
        short = [known for flag in kind.flags for known in flag.also if len(known) < len(word)]
        for known in (known for known in short if word.startswith(known) and not known.startswith("--")):
            return known, word[len(known) :]
    return word, None


def _meaning(written: str, kind: Kind) -> tuple[EngineFlag | None, str]:
    """What a flag says, and its whole name; argparse takes any unique beginning of one."""
    flag = written.replace("_", "-") if written.startswith("--") else written
    spelled = [(known, name) for known in kind.flags for name in (known.flag, *known.also)]
    exact = [one for one in spelled if one[1] == flag]
    shortened = [one for one in spelled if one[1].startswith(flag)]
    if not exact and kind.abbreviates and len(flag) > 2 and flag not in kind.not_abbreviations:
        exact = shortened if len({known.field for known, _ in shortened}) == 1 else []
    return exact[0] if exact else (None, flag)


def _is_flag(word: Word) -> bool:
    return isinstance(word, str) and word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)


def _known(word: Word) -> str:
    if isinstance(word, SecretRef):
        raise RefusedError(f"cannot read the command: only your shell knows ${word.name}; write its value instead")
    return word


def _about_secret(variable: str) -> str:
    return f"a secret, read from ${variable} of whoever applies this; {{file: PATH}} survives a reboot as well"
