"""Write down what is about to be started, before it is: a crash at any instant leaves an intent that explains it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.records import EngineRecords
from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.host.files import write_json
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.spec import Document

FORMAT_VERSION = 1


class Intent(NamedTuple):
    """The spec and the launch of one engine, as documents."""

    engine: str
    document: Document  # what decides about replacing it
    bookkeeping: Document
    secret_digests: Mapping[str, str]  # of the secrets that it was, or is to be, started with
    launch: Document


def recorded_intent(records: EngineRecords) -> Intent | None:
    """What an engine was started as last; None when a record of it is lost."""
    if records.spec is None or records.launch is None:
        return None
    spec, launch = records.spec, records.launch
    digests = spec.get("secret_digests") or {}
    return Intent(records.engine, spec["document"], spec["bookkeeping"], digests, launch["document"])


def write_intent(intent: Intent, folder: EngineDir) -> str:
    """Write spec.json and launch.json; the new launch's id. Raises NodeError."""
    launch_id = os.urandom(8).hex()
    write_spec(intent, folder)
    launch = {"id": launch_id, "engine": intent.engine, "document": intent.launch, "at": utc_now()}
    write_json(folder.file("launch.json"), {"format_version": FORMAT_VERSION, **launch})
    return launch_id


def write_spec(intent: Intent, folder: EngineDir, *, held: bool = False) -> None:
    """Write spec.json alone: bookkeeping that changes without a restart, or that a person holds it. Raises NodeError.

    `held`: stopped by hand, and not to be started until a restart or an apply.
    """
    write_json(
        folder.file("spec.json"),
        {
            "format_version": FORMAT_VERSION,
            "engine": intent.engine,
            "document": intent.document,
            "bookkeeping": intent.bookkeeping,
            "secret_digests": dict(intent.secret_digests),
            "held": held,
        },
    )
