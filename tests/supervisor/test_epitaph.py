"""What is written down of an end."""

from __future__ import annotations

import sys

import pytest

from llmgw_reconcile.supervisor.epitaph import End, epitaph
from llmgw_reconcile.supervisor.spawn import Exit
from tests.supervisor.test_orders import ORDERS

LOG = (
    b"INFO starting\n"
    b"(EngineCore pid=7) ERROR 01-02 03:04:05 [core.py:42] ValueError: No available memory for the cache blocks.\n"
    b"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)


def test_an_end_is_told_with_its_cause_in_plain_words_and_the_next_step() -> None:
    entry = epitaph(ORDERS, End(Exit(code=1), tail=LOG, was_ready=True))
    assert entry.pop("at").endswith("Z")
    assert entry == {
        "launch": "00ff",
        "code": 1,
        "signal": None,
        "cause": "ValueError: No available memory for the cache blocks.",
        "meaning": "the KV cache does not fit into what the weights leave",
        "hint": "lower max_model_len, raise gpu_memory_utilization, or use more GPUs",
        "was_ready": True,
        "tail": LOG.decode(),
    }


def test_our_own_reason_is_the_cause_and_the_log_may_still_give_the_hint() -> None:
    entry = epitaph(ORDERS, End(Exit(signal="SIGKILL"), "not ready within 60 s", LOG))
    assert (entry["cause"], entry["meaning"], entry["signal"]) == ("not ready within 60 s", "", "SIGKILL")
    assert entry["hint"].startswith("lower max_model_len")


def test_an_end_without_a_log_is_told_by_its_signal() -> None:
    entry = epitaph(ORDERS, End(Exit(signal="SIGKILL")))
    assert entry["cause"] == "killed from outside; possibly by the kernel for want of memory"


def test_secrets_are_masked_by_value_wherever_they_stand() -> None:
    orders = ORDERS._replace(secrets=("canary-1", "sk-canary-2"))
    log = b"using key canary-1\nERROR 01-02 03:04:05 [x.py:1] ValueError: bad token sk-canary-2\n"
    entry = epitaph(orders, End(Exit(code=1), "it said canary-1", log))
    assert "canary" not in str(entry)
    assert entry["tail"].startswith("using key (secret)\n")
    assert epitaph(orders, End(Exit(code=1), tail=log))["cause"] == "ValueError: bad token (secret)"


def test_bytes_that_are_no_text_are_no_exception() -> None:
    assert epitaph(ORDERS, End(Exit(code=1), tail=b"\xff\xfe\0\n"))["tail"] == "\ufffd\ufffd\0\n"


def test_an_llmgw_that_was_removed_meanwhile_leaves_an_entry_and_shows_nothing_unmasked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "llmgw_reconcile.engines.cause", None)
    entry = epitaph(ORDERS, End(Exit(code=7), tail=LOG))
    assert (entry["code"], entry["tail"]) == (7, "")
    assert entry["cause"].startswith("unknown: llmgw cannot read the log any more")
    assert epitaph(ORDERS, End(Exit(code=7), "not ready within 60 s", LOG))["cause"] == "not ready within 60 s"
