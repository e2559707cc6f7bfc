"""Codes of the state file itself: what is wrong in it refuses the whole file, and nothing is touched."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_reconcile.render.explanations.explanation import Explanation

STATE_FILE: Mapping[str, Explanation] = {
    "state-unreadable": Explanation(
        "The state file cannot be opened, or is no plain file: a directory, a pipe, a device, or larger than 64 MiB.",
        "Name a YAML file that this user may read, or - for standard input.",
    ),
    "state-empty": Explanation(
        "The file holds nothing, or nothing but comments. That never means that everything shall stop.",
        "Begin with `version: 1` and `models: []`, or with `llmgw init`.",
    ),
    "yaml-syntax": Explanation(
        "The file is no YAML. The place named is where the reader gave up; the mistake often stands a line before.",
        "Check indentation (spaces, no tabs), colons and quotes there.",
    ),
    "yaml-encoding": Explanation(
        "The file holds bytes that are no UTF-8, or no UTF-16 although it begins with its mark.",
        "Save it as UTF-8.",
    ),
    "yaml-character": Explanation(
        "YAML does not allow this control character, or a NUL or half a surrogate pair came in by an escape.",
        "Remove it; it was probably pasted along.",
    ),
    "yaml-documents": Explanation(
        "The file has a second document behind `---`. A state is one document, so that it is always whole.",
        "Split the file, or join both lists of models.",
    ),
    "yaml-tag": Explanation(
        "A tag (`!!int`, `!name`) asks the reader to make something else of a value. State files have none.",
        "Remove the tag; quote text that begins with an exclamation mark.",
    ),
    "yaml-key": Explanation(
        "A key is a list or a mapping, usually because unquoted text begins with { or [.",
        "Quote it.",
    ),
    "yaml-alias": Explanation(
        "An alias (`*name`) has no anchor before it, or aliases repeat so much that the file would explode.",
        "Use `defaults:` for what models share; quote text that begins with *.",
    ),
    "yaml-depth": Explanation(
        "The file is nested deeper than any state can be.",
        "Flatten it; a bracket is probably missing.",
    ),
    "merge-key": Explanation(
        "`<<` merges mappings in some YAML readers and not in others, so state files do without.",
        "Put what models share under `defaults:`.",
    ),
    "duplicate-key": Explanation(
        "A key stands twice in one mapping. Most YAML readers silently take the last one.",
        "Remove one of them.",
    ),
    "duplicate-item": Explanation(
        "A list whose items must differ has one twice.",
        "Remove one of them.",
    ),
    "unknown-key": Explanation(
        "The schema has no such field here; a field that nobody reads would be ignored.",
        "Correct its spelling, or its indentation; `llmgw schema state` lists all fields.",
    ),
    "missing-key": Explanation(
        "A field that cannot be left out is missing. `model` and `engine` may also come from `defaults:`.",
        "Write it.",
    ),
    "empty-value": Explanation(
        "A key has nothing behind its colon, which could mean several things.",
        'Give it a value, write [], {} or "" for an empty one, or leave the key out.',
    ),
    "null-is-text": Explanation(
        "Words like null and ~ are text in a state file, which is seldom what was meant.",
        "Leave the key out, or quote the word.",
    ),
    "wrong-type": Explanation(
        "The value is of another kind than the field takes, such as text for a number. `010` and `1e3` are text.",
        "Write it as the message says.",
    ),
    "wrong-value": Explanation(
        "The value is of the right kind and not among those that are allowed.",
        "Write one that the message names.",
    ),
    "wrong-key": Explanation(
        "A key of a free mapping, such as `env` or `labels`, does not look like a name there.",
        "Write it as the message says.",
    ),
    "wrong-size": Explanation(
        "A list or mapping has too few or too many items.",
        "Write as many as the message says.",
    ),
    "too-long": Explanation(
        "Linux passes no single argument or variable above 128 KiB, and no more than some MiB together.",
        "Put it into a file, and name that: `args: [--flag, {file: PATH}]`.",
    ),
    "too-many-errors": Explanation(
        "So much is wrong that the rest was not looked at.",
        "Correct the first errors; the others often follow from them.",
    ),
    "not-supported-yet": Explanation(
        "The schema knows this field, and this release does not act on it yet. Ignoring it would be worse.",
        "Leave it out, or upgrade llmgw.",
    ),
    "twin-name": Explanation(
        "Two models have one name, by which records, logs and commands would tell them apart.",
        "Give one of them another name.",
    ),
    "literal-secret": Explanation(
        "By its name this value is a secret, and it stands in a file that is meant to be committed.",
        "Write {file: PATH} or {env: NAME} instead, and change the secret if it was committed.",
    ),
    "file-not-read": Explanation(
        "A {file:} item of `args` is not there on this machine, so a change of its content would not be seen.",
        "Put it there; on a node that lacks it, the engine is blocked.",
    ),
    "sizes-do-not-add-up": Explanation(
        "GPUs named, replicas, nodes and parallel sizes contradict each other; the message shows the arithmetic.",
        "Correct one of them: GPUs = replicas x tensor x pipeline x data parallel size / nodes.",
    ),
    "clashing-flag": Explanation(
        "A flag in `args` says what a field says, so it would stand twice on the command line.",
        "Write the field, and leave the flag out.",
    ),
    "clashing-variable": Explanation(
        "A variable in `env` says what a field says, or is set by llmgw to tie the engine to its GPUs and its record.",
        "Write the field, and leave the variable out.",
    ),
    "unreadable-pin": Explanation(
        "`engine_version` is neither a version, nor a pattern of one, nor clauses as pip has them.",
        'Write "0.33.*" or ">=0.32,<0.34", in quotes.',
    ),
    "inexpressible": Explanation(
        "This engine has no words for a field that the file gives. llmgw refuses it rather than dropping it.",
        "Write what the hint names, or choose another engine.",
    ),
    "cpu-with-gpus": Explanation(
        "An engine with `device: cpu` names GPUs, which it would never use.",
        "Leave out one of the two.",
    ),
    "cpu-without-fp8": Explanation(
        "The build of vLLM for the CPU has no fp8.",
        "Leave `quantization` out, or use awq or gptq weights.",
    ),
    "key-on-command-line": Explanation(
        "The engine takes its key as an argument only, and every user of the node may read command lines.",
        "Let a proxy in front of it ask for the key, or accept that.",
    ),
    "port-twice": Explanation(
        "Two engines would listen on one port. Replica k of a model listens on port + k.",
        "Move one of the models.",
    ),
    "gpu-twice": Explanation(
        "Two models, or one model twice, name the same GPU.",
        "Give each engine GPUs of its own, or let both say `gpus: {share: true}`.",
    ),
    "node-twice": Explanation(
        "One node stands twice in `nodes`, by its name or by its address.",
        "Name each node once.",
    ),
}
