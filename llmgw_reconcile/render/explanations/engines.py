"""Codes of one engine before its start: its program, its model, its precision and its flags."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_reconcile.render.explanations.explanation import Explanation

ENGINES: Mapping[str, Explanation] = {
    "executable-missing": Explanation(
        "The engine's program is not where the file says, or not on PATH, or may not be executed.",
        "Install the engine, or name its program with `executable:`.",
    ),
    "engine-version": Explanation(
        "`engine_version` pins a version, and another one is installed, or which one it is cannot be told.",
        "Install that version, name another `executable`, or change the pin.",
    ),
    "unknown-flag": Explanation(
        "The installed engine does not know a flag of the command line; it would end at once. Flags come and go.",
        "Write its successor, or leave it out; for a flag of a plugin: `accept: [unknown-flag]`.",
    ),
    "deprecated-flag": Explanation(
        "The installed engine still takes this flag, and a later release will not.",
        "Write its successor before the next upgrade.",
    ),
    "file-missing": Explanation(
        "A file that `args` names with `{file: PATH}` could not be read on this node. The engine gets a copy of it, so"
        " it is not started without one; an engine that runs with an earlier copy is kept.",
        "Put the file there, readable for the user that applies. A relative path starts at the state file.",
    ),
    "model-missing": Explanation(
        "`model` is an absolute path, and nothing that an engine could load is there.",
        "Fetch the model to that place, or name it by its hub id.",
    ),
    "weights-missing": Explanation(
        "The index of the checkpoint names files that are not there: a download that was cut off.",
        "Fetch the model again.",
    ),
    "weights-damaged": Explanation(
        "A file of the checkpoint is shorter than its own header says, or has none.",
        "Fetch that file again.",
    ),
    "tokenizer-missing": Explanation(
        "The checkpoint has no tokenizer.",
        "Fetch the model whole, or name one: `args: [--tokenizer, PATH]`.",
    ),
    "does-not-fit": Explanation(
        "By the sizes in the checkpoint, its weights alone need more memory than the GPUs have. It is an estimate.",
        "Use more or larger GPUs or fewer bits; to try it all the same: `accept: [does-not-fit]`.",
    ),
    "tight-fit": Explanation(
        "The weights fit, and leave so little that one full-length request may not get its KV cache.",
        "Lower max_model_len, raise gpu_memory_utilization, or use more GPUs.",
    ),
    "fit-unknown": Explanation(
        "The model's files are not on this disk, or are of a form that llmgw cannot read: nothing was estimated.",
        "Nothing has to be done; download the model first to have it checked.",
    ),
    "heads-not-divisible": Explanation(
        "Tensor parallelism gives each rank as many attention heads, and this size does not divide them.",
        "Choose one of the sizes that the message lists.",
    ),
    "too-few-layers": Explanation(
        "A pipeline has more stages than the model has layers.",
        "Lower pipeline_parallel_size.",
    ),
    "experts-not-divisible": Explanation(
        "The experts of the model cannot be shared evenly by the ranks.",
        "Choose one of the sizes that the message lists.",
    ),
    "context-too-long": Explanation(
        "`max_model_len` is longer than the context that the model was made for.",
        "Lower it; the hint names the variable by which the engine takes more.",
    ),
    "quantization-unsupported": Explanation(
        "The engine refuses to start with this method on GPUs of that compute capability. Nothing accepts it away.",
        "Choose other GPUs, or weights in another precision.",
    ),
    "quantization-mismatch": Explanation(
        "The method needs weights that were quantized for it, and the checkpoint does not say that it was.",
        "Name a quantized checkpoint, or a method that quantizes while it loads, such as fp8.",
    ),
    "fp8-weight-only": Explanation(
        "These GPUs cannot compute in fp8. The engine would keep weights in fp8 and compute in 16 bit: it saves "
        "memory, and is not faster. llmgw refuses that until somebody says that it is meant.",
        "Use GPUs from Ada or Hopper on, or `accept: [fp8-weight-only]`.",
    ),
    "fp8-experts": Explanation(
        "Mixtures of experts in fp8 on GPUs without fp8 arithmetic work in some releases and fail in others.",
        "Try it apart from production, or use other weights.",
    ),
    "fp4-weight-only": Explanation(
        "These GPUs cannot compute in fp4: the weights stay in fp4, the arithmetic is of 16 bit.",
        "Nothing has to be done; Blackwell computes in fp4.",
    ),
    "unknown-quantization": Explanation(
        "The method is not in llmgw's table for this engine, so what it needs of a GPU was not checked.",
        "Check the engine's own documentation.",
    ),
    "unknown-capability": Explanation(
        "The driver does not say the compute capability of a GPU, so the method was not checked.",
        "Update the driver; older ones do not tell it.",
    ),
    "secret-unreadable": Explanation(
        "A secret that the engine needs is not there: a variable is not set, or a file is missing or open to all.",
        "Set the variable for this command, or write {file: PATH} with a file of mode 0600.",
    ),
    "secret-not-compared": Explanation(
        "A secret cannot be read by this command, so whether it changed since the start is not known.",
        "Plan as the user, and with the variables, that apply has.",
    ),
    "command-remark": Explanation(
        "A command was made into an entry, and something of it needs a person: usually a secret.",
        "Do what the sentence says; it stands in the file as a comment too.",
    ),
}
