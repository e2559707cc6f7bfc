"""Turn an answer of nvidia-smi that is none into a diagnostic: what it did, what it printed, and the usual cure."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.host.tool import ToolResult

TOOL = "nvidia-smi"

# Exit codes of nvidia-smi(1), "RETURN VALUE"; 18 is NVML's LIB_RM_VERSION_MISMATCH.
CURES = {
    2: "this nvidia-smi does not know what llmgw asks for: update the driver",
    3: "this device does not offer the query; is it an NVIDIA GPU with the data-centre or desktop driver?",
    4: "this user may not use the devices: look at the permissions of /dev/nvidia*",
    6: "look for the cards with `lspci -d 10de:` and for the reason in `dmesg | grep -i nvrm`; a container must be"
    " given the GPUs when it is started",
    8: "attach the external power cables of the card",
    9: "load the driver (`modprobe nvidia`); after a new kernel it must be built for it first",
    10: "the kernel saw an interrupt problem with a card: look at `dmesg`",
    12: "libnvidia-ml.so is missing: install the driver's libraries, or give them to the container",
    13: "libnvidia-ml.so is older than nvidia-smi: install both from one driver release",
    14: "the infoROM of a card is corrupted: it computes, but its health cannot be told; have it checked",
    15: "a card has fallen off the bus: reboot the node; if it does not come back, power it off, then check its seat",
    18: "driver and library are of different releases, as after an upgrade: reload the nvidia modules or reboot",
    255: "the driver failed inside: look for Xid lines in `dmesg`, reset the card or reboot",
}
HANGS = "the driver hangs: look for Xid lines and blocked tasks in `dmesg`; a reboot is the usual cure"
UNKNOWN_CAUSE = "run `nvidia-smi` by hand and look at `dmesg | grep -i nvrm`"


INFOROM_CORRUPTED = 14  # with this code all cards are printed nevertheless


def failed(result: ToolResult, severity: Severity = Severity.ERROR) -> Diagnostic:
    """No answer, or an exit code that nothing printed explains: as an error, cards may be missing."""
    return Diagnostic(severity, "nvidia-smi-failed", TOOL, f"cannot read the GPUs: {_account(result)}", _cure(result))


def not_installed(cards: Sequence[str]) -> Diagnostic:
    """The driver has taken cards, at these PCI addresses, and nobody can say more of them."""
    message = f"cannot read the GPUs: {TOOL} is not found on PATH, and the driver has {', '.join(cards)}"
    hint = "install the tool of the driver's release, or put its folder on PATH"
    return Diagnostic(Severity.ERROR, "nvidia-smi-missing", TOOL, message, hint)


def part_failed(result: ToolResult, code: str, what: str) -> Diagnostic:
    """The cards are known, but not `what` else was asked for: a warning."""
    return Diagnostic(Severity.WARNING, code, TOOL, f"cannot read {what}: {_account(result)}", _cure(result))


def unreadable(result: ToolResult, broken: Sequence[str]) -> Diagnostic:
    """An answer in a form that we do not know: cards may be missing."""
    account = _account(result, "\n".join(broken))
    message = f"cannot read the GPUs: the answer is cut off or in an unknown form ({account})"
    return Diagnostic(Severity.ERROR, "nvidia-smi-unreadable", TOOL, message, UNKNOWN_CAUSE)


def remark(sentence: str) -> Diagnostic:
    """A sentence of the tool that names no card."""
    return Diagnostic(Severity.WARNING, "nvidia-smi-remark", TOOL, f"the tool remarks: {one_line(sentence)}")


def _account(result: ToolResult, where: str = "") -> str:
    did = result.problem if result.returncode is None else f"exit code {result.returncode}"
    printed = one_line(where or f"{result.stdout}\n{result.stderr}")
    return f"{did}: {printed or 'nothing was printed'}"


def _cure(result: ToolResult) -> str:
    if result.returncode is None:
        return HANGS if result.problem.startswith("no answer") else UNKNOWN_CAUSE
    return CURES.get(result.returncode, UNKNOWN_CAUSE)
