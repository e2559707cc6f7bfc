"""Look once over everything on a node that engines need, and give a cure for each thing that is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from llmgw_reconcile.discovery.disk import SHARED, VOLATILE, Disk, disk_of
from llmgw_reconcile.discovery.limit_warnings import warn_of_limits
from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.errors import Diagnostic, NodeError, Severity
from llmgw_reconcile.model.checkup import Check
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase
from llmgw_reconcile.workflow.applied import last_applied
from llmgw_reconcile.workflow.engines_here import InstalledEngine, installed_engines
from llmgw_reconcile.workflow.glance import glance
from llmgw_reconcile.workflow.host import Host

FULL_MB, TIGHT_MB = 64, 1024  # of the state directory: an engine's log alone may take 64 MiB


def check_node(host: Host) -> tuple[Check, ...]:
    """All checks, in the order in which a start would meet them. Nothing is changed."""
    look = glance(host)
    return (
        check_gpus(look.inventory),
        check_engines(installed_engines(host.environ)),
        Check("limits", _limits(look.inventory), warn_of_limits(look.inventory)),
        check_fabric(look.inventory),
        check_leftovers(look.observed),
        check_state_dir(host, look.observed, disk_of(host.state_dir.root)),
    )


def check_gpus(inventory: Inventory) -> Check:
    """The driver answers, and every card is fit."""
    versions = ((inventory.driver_version, "driver"), (inventory.cuda_version, "CUDA"))
    words = [f"{name} {version}" for version, name in versions if version]
    classes = Counter(gpu.gpu_class for gpu in inventory.gpus)
    words += [f"{count} x {name}" for name, count in sorted(classes.items())]
    if not inventory.gpus_known:
        words.append("the cards are not known")
    hint = "`llmgw agent inventory` shows who holds it; keep a broken card out with `node.cordon`"
    unfit = (
        Diagnostic(Severity.WARNING, "gpu-unfit", gpu.label, "; ".join(gpu.health.problems), hint)
        for gpu in inventory.gpus
        if gpu.health.problems
    )
    return Check("gpus", ", ".join(words) or "none, and no driver", (*map(_with_cure, inventory.problems), *unfit))


def check_engines(engines: Sequence[InstalledEngine]) -> Check:
    """At least one engine is installed where llmgw finds it by itself."""
    names = [f"{KINDS[engine.kind].executable} {engine.version or '(version unknown)'}" for engine in engines]
    if names:
        return Check("engines", ", ".join(names))
    known = ", ".join(kind.executable for kind in KINDS.values())
    hint = "install one, put its folder on PATH, or name it with `executable:` in the state file"
    missing = Diagnostic(Severity.WARNING, "no-engine", "PATH", f"none of {known} is there", hint)
    return Check("engines", "none on PATH", (missing,))


def check_fabric(inventory: Inventory) -> Check:
    """It is clear what engines over several nodes would talk over."""
    fabric = inventory.fabric
    summary = f"{fabric.kind}: {fabric.reason}" if fabric.kind else f"island: {fabric.reason}"
    if not fabric.candidates:
        return Check("fabric", summary)
    hint = "name the adapters: `node: {fabric: {hcas: [DEVICE:PORT]}}`, or `fabric: none`"
    return Check(
        "fabric", "undecided", (Diagnostic(Severity.WARNING, "fabric-undecided", inventory.node, fabric.reason, hint),)
    )


def check_leftovers(observed: ObservedState) -> Check:
    """No engine of ours is without its supervisor, failed, or half gone."""
    running = sum(engine.is_running for engine in observed.engines)
    findings = [finding for engine in observed.engines for finding in _engine_findings(engine)]
    return Check("running", f"{running} engine{'s' * (running != 1)}", tuple(findings))


def check_state_dir(host: Host, observed: ObservedState, disk: Disk) -> Check:
    """Records can be believed, and written, and live through a reboot."""
    root = host.state_dir.root
    findings = [*map(_with_cure, observed.problems)]
    try:
        applied = last_applied(host.state_dir)
        words = "nothing applied yet" if applied is None else f"applied last: {applied.file}"
    except NodeError as error:
        words = "cannot be used"
        if observed.readable:
            hint = "apply a state file: that writes it anew"
            findings.append(Diagnostic(Severity.WARNING, "applied-unreadable", root, str(error), hint))
    findings += _disk_findings(root, disk)
    return Check("records", f"{root}, {words}", tuple(findings))


def _disk_findings(root: str, disk: Disk) -> Iterator[Diagnostic]:
    elsewhere = "keep records on a local disk: --state-dir, or LLMGW_STATE_DIR"
    if disk.kind in VOLATILE:
        message = f"it lies on {disk.kind}: a reboot forgets what was applied"
        yield Diagnostic(Severity.WARNING, "state-dir-volatile", root, message, elsewhere)
    elif disk.kind in SHARED:
        message = f"it lies on {disk.kind}, where locks and renames may fail"
        yield Diagnostic(Severity.WARNING, "state-dir-shared", root, message, elsewhere)
    if disk.free_mb is not None and disk.free_mb < TIGHT_MB:
        severity = Severity.ERROR if disk.free_mb < FULL_MB else Severity.WARNING
        message = f"{disk.free_mb} MiB are free: logs of engines take up to {FULL_MB} MiB each"
        yield Diagnostic(severity, "disk-full", root, message, f"make room there; {elsewhere}")


def _engine_findings(engine: ObservedEngine) -> Iterator[Diagnostic]:
    name = engine.engine
    if engine.leftovers:
        pids = ", ".join(str(process.pid) for process in engine.leftovers)
        hint = f"`llmgw apply` ends them before it starts {name} again, `llmgw stop {name}` for good"
        yield Diagnostic(
            Severity.WARNING, "left-over-processes", name, f"its leader is gone, these live on: {pids}", hint
        )
    elif engine.phase is Phase.ORPHANED:
        hint = "`llmgw apply` gives it a new supervisor, without a restart"
        yield Diagnostic(Severity.WARNING, "no-supervisor", name, "it runs without a supervisor", hint)
    elif engine.phase is Phase.FAILED:
        cause = engine.last_exit.cause or engine.last_exit.words or engine.detail or "it ended"
        hint = f"`llmgw logs {name}` shows its last words; then `llmgw restart {name}`"
        yield Diagnostic(Severity.WARNING, "engine-failed", name, cause, hint)
    yield from map(_with_cure, engine.problems)


def _limits(inventory: Inventory) -> str:
    limits = inventory.limits
    numbers = (("open files", limits.nofile, ""), ("locked memory", limits.memlock_kb, " KiB"))
    words = [f"{what} {'unlimited' if n == -1 else f'{n}{unit}'}" for what, n, unit in numbers if n is not None]
    if limits.model_cache_free_mb is not None:
        words.append(f"{limits.model_cache_free_mb} MiB free for models")
    return ", ".join(words)


def _with_cure(finding: Diagnostic) -> Diagnostic:
    return finding if finding.hint else finding._replace(hint=f"`llmgw explain {finding.code}` says what to do")
