"""Codes of what runs, of llmgw's own records, and of the guards round an apply."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_reconcile.render.explanations.explanation import Explanation

RUNNING: Mapping[str, Explanation] = {
    "drift": Explanation(
        "A running engine is not what its own record says: its command line, version, context or cards differ. "
        "A record was changed by hand, or its supervisor restarted it after another version was installed.",
        "`llmgw restart ENGINE` starts it as recorded; until then it is left alone.",
    ),
    "records-unreadable": Explanation(
        "The state directory cannot be believed: it belongs to another user, others may write to it, or it is a link.",
        "Make it yours alone (`chown`, `chmod 0700`), after a look at what others may have put there.",
    ),
    "record-set-aside": Explanation(
        "A record is damaged or of another version, and was not believed. The kernel tells what runs in any case.",
        "Apply again: that writes it anew. It happens after a full disk or a power loss.",
    ),
    "record-lost": Explanation(
        "An engine of ours runs, and what it was started with is not known any more, so it is left alone.",
        "`llmgw stop` it; the next apply starts it afresh.",
    ),
    "applied-unreadable": Explanation(
        "The copy of the file that was applied last cannot be read.",
        "Apply a state file: that writes it anew.",
    ),
    "no-supervisor": Explanation(
        "An engine serves without its supervisor, which was killed: nobody would restart it after a crash.",
        "`llmgw apply` gives it a new one, without a restart.",
    ),
    "left-over-processes": Explanation(
        "The leader of an engine is gone, and its workers live on and hold GPU memory.",
        "`llmgw apply` ends them before it starts the engine again, `llmgw stop` for good.",
    ),
    "engine-failed": Explanation(
        "An engine ended and is not restarted by itself: it was never ready, or crashed too often.",
        "`llmgw logs` shows why; correct that, then `llmgw restart` or apply.",
    ),
    "import-unreadable": Explanation(
        "An engine runs whose record is lost, or whose command line cannot be made into an entry.",
        "Write its entry by hand.",
    ),
    "import-incomplete": Explanation(
        "An engine runs in a way that a state file cannot say, such as on a port below 1024.",
        "Its entry stands in the file as a comment, with the reason: correct it there.",
    ),
    "partial-plan": Explanation(
        "`--target` plans a part of the file only. Everything else is left as it is.",
        "Plan without --target before you rely on the whole.",
    ),
    "other-node": Explanation(
        "`node.name` names another node than this one.",
        "Apply it there, or say with --node what this node is called.",
    ),
    "protected": Explanation(
        "A running engine was applied with `protect: true`, and this plan would take it down.",
        "Apply `protect: false` for it first, with nothing else of it changed.",
    ),
    "empty-state": Explanation(
        "The file has no models while engines run: the usual sign of a file that was emptied by mistake.",
        "If everything shall stop, add --allow-empty.",
    ),
    "too-many-stops": Explanation(
        "More than half of the running engines would stop for good.",
        "Read the plan; if that is meant, add --max-stops with their number.",
    ),
}
