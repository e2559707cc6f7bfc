"""The root cause, wherever in the log it stands. Logs in the engines' own forms, with values of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw_reconcile.engines.cause import KNOWN_CAUSES, find_cause

RECORDINGS = Path(__file__).parents[3] / "shared" / "facts" / "engines"

MEMORY = "the GPU had too little free memory"
KV_CACHE = "the KV cache does not fit into what the weights leave"
PORT = "another process took the port"
FLAG = "the installed engine does not know a flag or a value"
GATED = "the model is gated, or the token may not read it"
ABSENT = "the model is not there"
QUANTIZATION = "the engine cannot run this quantization here"
SIZES = "tensor_parallel_size does not divide the model"
CONTEXT = "max_model_len is longer than the model's context"
DAMAGED = "the weights are truncated or damaged"
DIED = "a process of the engine died under it"
NCCL = "the GPUs could not talk to each other"

ULIMIT = (
    "(APIServer pid=11) WARNING 03-04 05:06:07 [system_utils.py:255] Found ulimit of 4096 and failed to automatically "
    "increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] "
    "Too many open files`."
)
ENDING = """Traceback (most recent call last):
  File "/opt/vllm/bin/vllm", line 8, in <module>
    sys.exit(main())
             ^^^^^^
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def failed_worker(error: str, *, frames: int = 60) -> str:
    """A vLLM load that failed in a worker: told by the worker, told again by its parents, and the useless last line."""
    log = [ULIMIT, "(APIServer pid=11) INFO 03-04 05:06:08 [api_utils.py:286] non-default args: {'port': 8000}"]
    worker = "(Worker_TP0 pid=13) ERROR 03-04 05:06:30 [multiproc_executor.py:1012] "
    log += [worker + "WorkerProc failed to start.", worker + "Traceback (most recent call last):"]
    for number in range(frames):
        log += [f'{worker}  File "/opt/vllm/layer_{number}.py", line {number}, in load', worker + "    return load(x)"]
        log += [worker + "           ^^^^^^^"]
    log += [worker + error, "(Worker_TP0 pid=13) INFO 03-04 05:06:31 [multiproc_executor.py:843] Parent process exited"]
    core = "(EngineCore_DP0 pid=12) ERROR 03-04 05:06:31 [core.py:1488] "
    log += [core + "EngineCore failed to start.", core + "Traceback (most recent call last):"]
    log += [
        core + "Exception: WorkerProc initialization failed due to an exception in a background process. "
        "See stack trace for root cause."
    ]
    return "\n".join(log) + "\nProcess EngineCore_DP0:\n" + ENDING


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.", KV_CACHE),
        ("ValueError: To serve one request of 9000 tokens (3.1 GiB KV cache is needed, 1.2 GiB are left).", KV_CACHE),
        ("RuntimeError: Worker failed with error 'Available memory on node 0 (3.2/9.5 GiB) is less'", KV_CACHE),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.1 GiB free.", MEMORY),
        ("ValueError: Free memory on device cuda:0 (11.9/79.1 GiB) on startup is less than desired (0.9).", MEMORY),
        ("ValueError: fp8 quantization is currently not supported in cpu.", QUANTIZATION),
        ("ValueError: The quantization method marlin is not supported for the current GPU.", QUANTIZATION),
        ("ValueError: marlin cannot run here. Minimum capability: 80. Current capability: 75.", QUANTIZATION),
        ("safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata", DAMAGED),
        ("torch.distributed.DistBackendError: NCCL error in: /src/x.cpp:77, unhandled system error", NCCL),
        ("KeyError: 'model.layers.0.strange.weight'", ""),
    ],
)
def test_vllms_cause_stands_far_above_its_last_line(error: str, meaning: str) -> None:
    cause = find_cause(failed_worker(error), exit_signal=None)
    assert (cause.line, cause.meaning) == (error, meaning)
    assert bool(cause.hint) == bool(meaning)


PYDANTIC = """(APIServer pid=11) INFO 03-04 05:06:08 [api_utils.py:286] non-default args: {}
Traceback (most recent call last):
  File "/opt/vllm/bin/vllm", line 8, in <module>
    sys.exit(main())
pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig
  Value error, %s [type=value_error, input_value=ArgsKwargs((), {'model_co...: 0}), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.11/v/value_error
"""


@pytest.mark.parametrize(
    ("sentence", "meaning"),
    [
        ("Total number of attention heads (40) must be divisible by tensor parallel size (3).", SIZES),
        ("User-specified max_model_len (9000) is greater than the derived max_model_len (4096)", CONTEXT),
        ("Unknown quantization method: fp9. Must be one of ['awq', 'fp8']", QUANTIZATION),
        ("Cannot find the config file for awq", QUANTIZATION),
        (
            "World size (8) is larger than the number of available GPUs (4) in this node.",
            "the engine sees fewer GPUs than it needs",
        ),
    ],
)
def test_a_configuration_that_is_refused_is_told_without_the_configuration(sentence: str, meaning: str) -> None:
    cause = find_cause(ULIMIT + "\n" + PYDANTIC % sentence)
    assert (cause.line, cause.meaning) == (f"Value error, {sentence}", meaning)


@pytest.mark.parametrize(
    ("log", "line", "meaning"),
    [
        pytest.param(
            "usage: vllm [-h] [-v] {chat,serve} ...\nvllm: error: unrecognized arguments: --speed 9\n",
            "vllm: error: unrecognized arguments: --speed 9",
            FLAG,
            id="vllm-flag",
        ),
        pytest.param(
            "Traceback (most recent call last):\n    sock.bind(addr)\nOSError: [Errno 98] Address already in use\n",
            "OSError: [Errno 98] Address already in use",
            PORT,
            id="vllm-port",
        ),
        pytest.param(
            "httpx.ConnectError: [Errno -2] Name or service not known\n\nThe above exception was the cause:\n"
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the local cache.\n"
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files.\n",
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the local cache.",
            ABSENT,
            id="model-absent",
        ),
        pytest.param(
            "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/x/y\n",
            "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/x/y",
            GATED,
            id="gated",
        ),
        pytest.param(
            "[2026-03-04 05:06:07] INFO:     Application startup complete.\n"
            "[2026-03-04 05:06:07] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): "
            "address already in use\n"
            "[2026-03-04 05:08:07] Initialization failed. warmup error: Traceback (most recent call last):\n"
            "AssertionError: res=<Response [404]>, res.text='not found'\n"
            "[2026-03-04 05:08:07] kill_process_tree called: parent_pid=7, include_parent=True, pid=7\n",
            "[Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
            PORT,
            id="sglang-port-which-it-notices-two-minutes-later",
        ),
        pytest.param(
            "[2026-03-04 05:06:07 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
            '  File "/opt/sglang/scheduler.py", line 1999, in run\n'
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            KV_CACHE,
            id="sglang-memory",
        ),
        pytest.param(
            '[2026-03-04 05:06:07] INFO:     127.0.0.1:5 - "POST /generate HTTP/1.1" 200 OK\n'
            "[2026-03-04 05:06:41] Subprocess scheduler_0 (pid=77) crashed with exit code -9. Triggering SIGQUIT.\n"
            "[2026-03-04 05:06:46] kill_process_tree called: parent_pid=7, include_parent=True, pid=7\n",
            "Subprocess scheduler_0 (pid=77) crashed with exit code -9. Triggering SIGQUIT.",
            DIED,
            id="sglang-scheduler-killed",
        ),
        pytest.param(
            "0.00.016.218 I srv    load_model: loading model '/m/x.gguf'\n"
            "0.00.053.579 E gguf_init_from_file: failed to open GGUF file '/m/x.gguf' (No such file or directory)\n"
            "0.00.053.703 E llama_model_load: error loading model: failed to load model from /m/x.gguf\n"
            "0.00.055.665 I srv    operator(): operator(): cleaning up before exit...\n"
            "0.00.056.136 E srv  llama_server: exiting due to model loading error\n",
            "gguf_init_from_file: failed to open GGUF file '/m/x.gguf' (No such file or directory)",
            ABSENT,
            id="llama-server-model",
        ),
        pytest.param(
            "0.00.016.552 E llama_model_load: error loading model: tensor 'x' data is not within the file bounds\n"
            "0.00.018.236 E srv  llama_server: exiting due to model loading error\n",
            "llama_model_load: error loading model: tensor 'x' data is not within the file bounds",
            DAMAGED,
            id="llama-server-truncated",
        ),
        pytest.param(
            "0.00.011.086 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8000\n"
            "0.00.013.054 E srv  llama_server: exiting due to HTTP server error\n",
            "srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8000",
            PORT,
            id="llama-server-port",
        ),
        pytest.param("error: invalid argument: --speed\n", "error: invalid argument: --speed", FLAG, id="llama-flag"),
        pytest.param(
            "(EngineCore pid=2) ERROR 03-04 05:06:07 [core.py:1512] RuntimeError: Executor failed.\n"
            "(APIServer pid=1) ERROR 03-04 05:06:07 [async_llm.py:906] AsyncLLM output_handler failed.\n"
            "(APIServer pid=1) ERROR 03-04 05:06:07 [async_llm.py:906] x.EngineDeadError: See stack trace (above).\n",
            "RuntimeError: Executor failed.",
            DIED,
            id="vllm-worker-killed",
        ),
    ],
)
def test_each_engine_tells_its_causes_in_its_own_way(log: str, line: str, meaning: str) -> None:
    cause = find_cause(log)
    assert (cause.line, cause.meaning) == (line, meaning)


def test_the_first_exception_is_the_cause_and_later_ones_its_consequences() -> None:
    log = failed_worker("torch.OutOfMemoryError: CUDA out of memory.") + failed_worker("ValueError: NCCL error")
    assert find_cause(log).meaning == MEMORY


def test_requests_that_failed_while_it_served_are_another_story() -> None:
    log = (
        "ERROR 03-04 05:06:07 [serving.py:99] ValueError: a prompt that is too long\n"
        'INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 400 Bad Request\n'
        'INFO:     127.0.0.1:5 - "GET /metrics HTTP/1.1" 200 OK\n'
        "(EngineCore pid=2) ERROR 03-04 07:06:07 [core.py:1512] RuntimeError: CUDA error: an illegal memory access\n"
    )
    assert find_cause(log).line == "RuntimeError: CUDA error: an illegal memory access"


def test_an_error_before_the_last_answer_is_better_than_none() -> None:
    log = 'ERROR 03-04 05:06:07 [x.py:1] ValueError: so it was\n"GET /metrics HTTP/1.1" 200 OK\n'
    assert find_cause(log).line == "ValueError: so it was"


@pytest.mark.parametrize(
    ("signal", "words"),
    [
        ("SIGKILL", "killed from outside; possibly by the kernel for want of memory"),
        ("SIGSEGV", "the engine itself crashed (SIGSEGV)"),
        ("SIGBUS", "the engine itself crashed (SIGBUS)"),
    ],
)
def test_a_log_without_a_cause_leaves_the_signal(signal: str, words: str) -> None:
    cause = find_cause("INFO serving\n", exit_signal=signal)
    assert (cause.line, cause.meaning) == (words, words)
    assert "dmesg" in cause.hint


def test_an_unknown_error_is_told_as_it_stands_with_what_the_signal_means() -> None:
    cause = find_cause("ERROR 03-04 05:06:07 [x.py:1] ValueError: strange\n", exit_signal="SIGABRT")
    assert (cause.line, cause.meaning) == ("ValueError: strange", "the engine itself crashed (SIGABRT)")


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", ""),
        ("\n\n", ""),
        ("INFO one\nINFO the last line\n\n", "INFO the last line"),
        (ULIMIT, ULIMIT.partition(") ")[2][:400]),
        (ENDING, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
    ],
    ids=["nothing", "blank-lines", "no-error", "a-harmless-warning", "only-the-sentence-without-content"],
)
def test_where_nothing_names_a_cause_the_last_words_are_shown(log: str, line: str) -> None:
    assert find_cause(log).line == line


def test_escapes_progress_bars_and_control_characters_are_no_part_of_a_line() -> None:
    log = "10%\r20%\r\x1b[31mERROR 03-04 05:06:07 [x.py:1] ValueError: red\x07\x1b[0m\n"
    assert find_cause(log).line == "ValueError: red"


def test_a_line_without_end_is_cut() -> None:
    assert len(find_cause("ERROR ValueError: " + "x" * 90_000).line) == 400


@pytest.mark.parametrize("known", KNOWN_CAUSES, ids=lambda known: known.meaning)
def test_every_known_cause_says_what_to_do_and_where_it_was_seen(known: object) -> None:
    assert known.hint  # type: ignore[attr-defined]
    assert any(engine in known.seen for engine in ("vLLM", "SGLang", "llama-server"))  # type: ignore[attr-defined]


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"no recordings at {RECORDINGS}")
@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("f-badflag", FLAG),
        ("f-maxlen", CONTEXT),
        ("f-nohub", ABSENT),
        ("f-nomodel", ABSENT),
        ("f-port", PORT),
        ("f-quantawq", QUANTIZATION),
        ("f-quantname", QUANTIZATION),
        ("f-tp8", SIZES),
        ("s-nomodel", ABSENT),
        ("s-port", PORT),
        ("s-skill", DIED),
        ("sk-nomodel", ABSENT),
        ("sk-port", PORT),
        ("sk-trunc", DAMAGED),
        ("v-eckill", DIED),
        ("v-wkill", DIED),
        # Shortened to their ends, above which the cause once stood.
        ("f-oom", ""),
        ("f-quantfp8", ""),
        ("f-trunc", ""),
    ],
)
def test_every_recorded_failure_is_understood(name: str, meaning: str) -> None:
    assert find_cause((RECORDINGS / f"{name}.log.txt").read_text()).meaning == meaning
