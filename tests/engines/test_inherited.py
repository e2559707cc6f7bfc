"""Which variables of a running engine are worth writing down."""

from __future__ import annotations

from llmgw_reconcile.engines.inherited import inherited_variables


def test_what_an_engine_or_its_libraries_read_is_kept_and_the_session_is_not() -> None:
    environ = {
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "NCCL_DEBUG": "INFO",
        "CUDA_VISIBLE_DEVICES": "0",
        "HF_HOME": "/data",
        "LD_LIBRARY_PATH": "/opt/lib",
        "https_proxy": "http://proxy:3128",
        "HOME": "/root",
        "PATH": "/usr/bin",
        "SSH_CONNECTION": "10.0.0.1",
        "LLMGW_ENGINE": "chat@0",
        "MY_HF_HOME": "/no",
    }
    assert list(inherited_variables(environ)) == [
        "CUDA_VISIBLE_DEVICES",
        "HF_HOME",
        "LD_LIBRARY_PATH",
        "NCCL_DEBUG",
        "VLLM_LOGGING_LEVEL",
        "https_proxy",
    ]
