"""An inference engine without inference: the processes, ports, logs and answers of a real one, and faults on command.

It takes the command lines of `vllm serve`, `sglang serve` and `llama-server`; `install_engines` writes the three
commands. What it does is set by environment variables, so in a state file by `env:`. The file named by STUB_CONTROL
(a JSON object) overrides them, also while the engine runs: answers look there each time.

Start      STUB_BIND_EARLY=1 takes the port at once and listens later · STUB_LISTEN_DELAY seconds before it listens ·
           STUB_LOAD_DELAY seconds of 503 on every path after that · STUB_WARMUP seconds of 503 on /health alone ·
           STUB_REUSEPORT=1 · STUB_EXTRA_PORTS 9001,9002 · STUB_REJECT --flag: exit 2 when that flag is given ·
           STUB_VERSION what --version says · STUB_HELP what --help says; without it --help is refused
Answers    STUB_HEALTH status · STUB_HEALTH_DELAY · STUB_HEALTH_BODY · STUB_MODELS JSON list of ids ·
           STUB_MODELS_STATUS · STUB_MODELS_DELAY · STUB_MODELS_BODY. A body is text, or one of `huge` (100 MiB),
           `endless` (chunks for ever), `stall` (the first byte of the answer, then nothing) ·
           STUB_RUNNING n: requests in hand, as /metrics tells them; without it there is no /metrics ·
           STUB_MUTE=silent accepts and never answers, STUB_MUTE=full never accepts and fills its own backlog
Processes  STUB_WORKERS n, with STUB_WORKER_IGNORE_TERM, STUB_WORKER_SETSID, STUB_WORKER_DOUBLE_FORK,
           STUB_WORKER_RENAME (another argv, no environment)
Ends       STUB_IGNORE_TERM always|loading · STUB_TERM_DELAY seconds to drain · STUB_EXIT code@seconds or
           SIGNAL@seconds; the workers live on, as vLLM's do · STUB_ERROR text of the root cause, printed before that
           with 200 lines and a sentence without content behind it. A worker that dies ends the leader: vLLM with
           exit code 0, SGLang by SIGKILL of itself
Log        STUB_LOG_EVERY seconds between signs of life while it loads · STUB_LOG_BYTES written at once when it serves,
           in lines of STUB_LOG_LINE_BYTES, STUB_LOG_STYLE lines|progress|escapes
Memory     STUB_MIB held on each GPU of CUDA_VISIBLE_DEVICES, told to the fake nvidia-smi by claim files in
           FAKE_GPU_CLAIMS; still held for STUB_DRAIN_POLLS of its calls after the end. STUB_GPU_MIB: size of a card,
           without room on it the engine ends as out of memory
View       STUB_VIEW file that gets what the engine sees of itself: argv, environment, descriptors, signal masks
           (CPython itself ignores SIGPIPE and SIGXFSZ), limits, session, group, working directory, umask

With --api-key, VLLM_API_KEY or LLAMA_API_KEY it guards the paths that the engine of that name guards.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import socket
import sys
import time

HUGE = 100 << 20
NEVER = 1e9
DEFAULT_PORTS = {"vllm": 8000, "sglang": 30000, "llama-server": 8080}
REASONS = {200: "OK", 302: "Found", 401: "Unauthorized", 404: "Not Found", 500: "Internal Server Error"}
RUNNING = {
    "vllm": "vllm:num_requests_running",
    "sglang": "sglang:num_running_reqs",
    "llama-server": "llamacpp:requests_processing",
}
RENAMED = "import signal, time\nif {ignore}: signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(36000)"


def install_engines(folder: str | os.PathLike[str]) -> None:
    """Write the commands vllm, sglang and llama-server into a folder.

    The interpreter is named without options, so that /proc shows what it shows of a console script; the code is
    imported, so that it is compiled only once.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    for name in DEFAULT_PORTS:
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {here!r})\n")
            file.write("from stub_engine import main\nmain(sys.argv)\n")
        os.chmod(path, 0o755)


def knob(name: str, default: str = "") -> str:
    """What the control file says, else the environment, else the default."""
    try:
        with open(os.environ["STUB_CONTROL"]) as file:
            return str(json.load(file)[name])
    except (KeyError, OSError, ValueError):
        return os.environ.get(name, default)


def number(name: str) -> float:
    return float(knob(name, "0"))


def flag(argv: list[str], *names: str) -> list[str]:
    """The values of a flag, `--flag a b` or `--flag=a`; of the last one when it stands there twice."""
    found: list[str] = []
    for position, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if name in names:
            rest = argv[position + 1 :]
            end = next((n for n, word in enumerate(rest) if word.startswith("-")), len(rest))
            found = [value] if equals else rest[:end]
    return found


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


class Engine:
    """One running stub: what its command line asked for, and how far it has come."""

    def __init__(self, argv: list[str]) -> None:
        self.kind = os.path.basename(argv[0])
        positional = [word for word in argv[1:3] if not word.startswith("-")]
        model = flag(argv, "--model", "--model-path", "-m") or positional[-1:]
        aliases = [name for alias in flag(argv, "--alias", "-a") for name in alias.split(",")]
        self.names = flag(argv, "--served-model-name") or aliases or model
        self.host = (flag(argv, "--host") or ["127.0.0.1"])[0]
        self.port = int((flag(argv, "--port") or [DEFAULT_PORTS[self.kind]])[0])
        environment = {"vllm": "VLLM_API_KEY", "llama-server": "LLAMA_API_KEY"}.get(self.kind, "")
        self.keys = flag(argv, "--api-key") or [key for key in [os.environ.get(environment)] if key]
        self.workers: list[int] = []
        self.others: list[socket.socket] = []
        self.loaded_at = self.warm_at = NEVER

    @property
    def is_loading(self) -> bool:
        return time.monotonic() < self.loaded_at

    def run(self) -> None:
        """Start workers, listen, serve; ends only by a signal or on command."""
        self.start_workers()
        signal.signal(signal.SIGTERM, self.on_term)
        signal.signal(signal.SIGINT, self.on_term)
        if when := knob("STUB_EXIT"):
            _thread.start_new_thread(self.leave, tuple(when.partition("@")[::2]))
        early = self.bind() if knob("STUB_BIND_EARLY") else None
        if every := number("STUB_LOG_EVERY"):
            _thread.start_new_thread(self.show_progress, (every,))
        time.sleep(number("STUB_LISTEN_DELAY"))
        listener = early or self.bind()
        listener.listen(0 if knob("STUB_MUTE") == "full" else 128)
        self.loaded_at = time.monotonic() + number("STUB_LOAD_DELAY")
        self.warm_at = self.loaded_at + number("STUB_WARMUP")
        self.others = [self.listen_on(int(port)) for port in knob("STUB_EXTRA_PORTS").split(",") if port]
        say("INFO: Application startup complete.")
        if number("STUB_LOG_BYTES"):
            _thread.start_new_thread(chatter, ())
        self.serve(listener)

    # -- processes
    def start_workers(self) -> None:
        count = int(number("STUB_WORKERS"))
        for rank in range(count):
            pid = os.fork()
            if pid == 0:
                become_worker(rank, count)
            if knob("STUB_WORKER_DOUBLE_FORK"):
                os.waitpid(pid, 0)  # the one in between; nobody waits for the worker itself
            else:
                self.workers.append(pid)
        if count:
            signal.signal(signal.SIGCHLD, self.on_worker_death)
        else:
            claim_memory(visible_gpus())

    def on_worker_death(self, *_: object) -> None:
        for pid in list(self.workers):
            if os.waitpid(pid, os.WNOHANG)[0]:
                say(f"ERROR [core_client.py:600] worker {pid} died")
                if self.kind == "sglang":
                    os.kill(os.getpid(), signal.SIGKILL)
                os._exit(0)

    def on_term(self, *_: object) -> None:
        ignore = knob("STUB_IGNORE_TERM")
        if ignore == "always" or (ignore == "loading" and self.is_loading):
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        time.sleep(number("STUB_TERM_DELAY"))
        for pid in self.workers:
            os.kill(pid, signal.SIGTERM)
        say("INFO: Shutting down")
        os._exit(0)

    def leave(self, how: str, after: str) -> None:
        time.sleep(float(after or 0))
        if cause := knob("STUB_ERROR"):
            say(f"(EngineCore pid={os.getpid()}) ERROR 01-02 03:04:05 [core.py:1042] {cause}")
            os.write(1, b"".join(b'  File "/opt/engine/layer_%d.py", line 7, in forward\n' % n for n in range(200)))
            say("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
        if how.isdigit():
            os._exit(int(how))
        os.kill(os.getpid(), signal.Signals[how])

    def show_progress(self, every: float) -> None:
        done = 0
        while self.is_loading:
            say(f"INFO: Loading safetensors checkpoint shards: {done} done")
            done += 1
            time.sleep(every)

    # -- sockets and answers
    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    def bind(self) -> socket.socket:
        listener = socket.socket(self.family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if knob("STUB_REUSEPORT"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listener.bind((self.host, self.port))
        except OSError as error:
            say(f"ERROR: [Errno {error.errno}] error while attempting to bind on port {self.port}: {error.strerror}")
            os._exit(1)
        return listener

    def listen_on(self, port: int) -> socket.socket:
        return socket.create_server((self.host, port), family=self.family)

    def serve(self, listener: socket.socket) -> None:
        if knob("STUB_MUTE") == "full":
            crowd = [socket.socket(listener.family) for _ in range(4)]
            for one in crowd:
                one.setblocking(False)
                one.connect_ex((self.host, self.port))
            time.sleep(NEVER)
        while True:
            connection, _ = listener.accept()
            _thread.start_new_thread(self.converse, (connection,))

    def converse(self, connection: socket.socket) -> None:
        """Answer the requests of one connection until its peer is gone."""
        reader = connection.makefile("rb")
        try:
            while request := reader.readline().split():
                headers = {}
                while line := reader.readline().strip():
                    name, _, value = line.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                reader.read(int(headers.get("content-length", 0)))
                while knob("STUB_MUTE") == "silent":
                    time.sleep(0.1)
                self.answer(connection, request[1].decode("latin-1").partition("?")[0], headers)
        except (OSError, ValueError):
            pass  # the peer is gone, or spoke no HTTP
        finally:
            connection.close()

    def answer(self, connection: socket.socket, path: str, headers: dict[str, str]) -> None:
        if self.is_loading:
            send(connection, 503, '{"error": {"code": 503, "message": "Loading model"}}')
        elif self.is_guarded(path) and headers.get("authorization", "").removeprefix("Bearer ") not in self.keys:
            send(connection, 401, '{"error": "Unauthorized"}')
        elif path == "/health":
            time.sleep(number("STUB_HEALTH_DELAY"))
            status = int(knob("STUB_HEALTH", "200"))
            send(connection, 503 if time.monotonic() < self.warm_at else status, knob("STUB_HEALTH_BODY"))
        elif path == "/v1/models":
            time.sleep(number("STUB_MODELS_DELAY"))
            send(connection, int(knob("STUB_MODELS_STATUS", "200")), knob("STUB_MODELS_BODY") or self.models())
        elif path == "/metrics" and knob("STUB_RUNNING"):
            send(connection, 200, f'{RUNNING[self.kind]}{{model_name="{self.names[0]}"}} {knob("STUB_RUNNING")}\n')
        elif path in ("/v1/chat/completions", "/v1/completions"):
            message = {"role": "assistant", "content": "ok"}
            send(connection, 200, json.dumps({"model": self.names[0], "choices": [{"message": message, "text": "ok"}]}))
        else:
            send(connection, 404, '{"detail": "Not Found"}')

    def is_guarded(self, path: str) -> bool:
        if not self.keys or path == "/health":
            return False
        return path.startswith("/v1/") if self.kind == "vllm" else self.kind == "sglang" or path != "/v1/models"

    def models(self) -> str:
        names = json.loads(knob("STUB_MODELS", "null")) or self.names
        rows = [{"id": name, "object": "model", "owned_by": self.kind, "root": self.names[0]} for name in names]
        return json.dumps({"object": "list", "data": rows})


def send(connection: socket.socket, status: int, body: str) -> None:
    """Send an answer; `huge`, `endless` and `stall` are bodies that no client should wait for."""
    head = f"HTTP/1.1 {status} {REASONS.get(status, 'Answer')}\r\nContent-Type: application/json\r\n"
    if body == "stall":
        connection.sendall(b"H")
        time.sleep(NEVER)
    elif body == "endless":
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        while True:
            connection.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
            time.sleep(0.01)
    elif body == "huge":
        connection.sendall(f"{head}Content-Length: {HUGE}\r\n\r\n".encode())
        for _ in range(HUGE >> 16):
            connection.sendall(b" " * (1 << 16))
    else:
        data = body.encode()
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)


def become_worker(rank: int, count: int) -> None:
    """What a fork of the leader does for the rest of its life."""
    if knob("STUB_WORKER_DOUBLE_FORK") and os.fork():
        os._exit(0)
    if knob("STUB_WORKER_SETSID"):
        os.setsid()
    ignore = bool(knob("STUB_WORKER_IGNORE_TERM"))
    signal.signal(signal.SIGTERM, signal.SIG_IGN if ignore else signal.SIG_DFL)
    claim_memory(visible_gpus()[rank::count])
    if knob("STUB_WORKER_RENAME"):
        os.execve(sys.executable, [f"VLLM::Worker_TP{rank}", "-SEc", RENAMED.format(ignore=ignore)], {})
    time.sleep(36000)
    os._exit(0)


def visible_gpus() -> list[str]:
    return [uuid for uuid in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]


def claim_memory(gpus: list[str]) -> None:
    """Hold memory on these GPUs, or end as CUDA ends a process that finds no room."""
    folder, mib = os.environ.get("FAKE_GPU_CLAIMS", ""), int(number("STUB_MIB"))
    if not folder or not mib or not gpus:
        return
    if size := int(number("STUB_GPU_MIB")):
        from nvidia_smi import memory_claimed

        for gpu in gpus:
            if memory_claimed(folder, gpu) + mib > size:
                say(f"ERROR 01-02 03:04:05 [core.py:1042] torch.OutOfMemoryError: CUDA out of memory, tried {mib} MiB")
                os._exit(1)
    claim = {"pid": os.getpid(), "gpus": gpus, "mib": mib, "drain_polls": int(number("STUB_DRAIN_POLLS"))}
    write_whole(os.path.join(folder, f"{os.getpid()}.json"), claim)


def chatter() -> None:
    """Write the log of a talkative engine, then one line that can be told from all others."""
    width = int(number("STUB_LOG_LINE_BYTES") or 100)
    style = knob("STUB_LOG_STYLE", "lines")
    if style == "escapes":
        line = b"\x1b[31m" + b"x" * max(0, width - 10) + b"\x1b[0m\n"
    else:
        line = b"x" * (width - 1) + (b"\r" if style == "progress" else b"\n")
    block = line * max(1, (1 << 16) // width)
    left = int(number("STUB_LOG_BYTES"))
    while left > 0:
        left -= os.write(1, block[:left])
    say("\nthe newest line of the log")


def write_view(argv: list[str], path: str) -> None:
    import resource

    with open("/proc/self/status") as file:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    descriptors = {}
    for number_text in os.listdir("/proc/self/fd"):
        try:
            descriptors[number_text] = os.readlink(f"/proc/self/fd/{number_text}")
        except OSError:
            continue  # the listing's own descriptor
    limits = {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}")) for name in ("nofile", "memlock", "core")
    }
    write_whole(
        path,
        {
            "argv": argv,
            "env": dict(os.environ),
            "fds": descriptors,
            "signals": {name: fields[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt")},
            "limits": limits,
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "pgid": os.getpgid(0),
            "sid": os.getsid(0),
            "cwd": os.getcwd(),
            "umask": int(fields["Umask"], 8),
        },
    )


def write_whole(path: str, document: object) -> None:
    """Readers poll for the file: it must never be there by half."""
    fresh = f"{path}.{os.getpid()}.new"
    with open(fresh, "w") as file:
        json.dump(document, file)
    os.rename(fresh, path)


def main(argv: list[str]) -> None:
    """Be the engine that this command line starts."""
    if argv[-1] in ("--version", "version"):
        say(knob("STUB_VERSION", "0.33.0"))
        return
    if any(word.startswith("--help") for word in argv):
        say(knob("STUB_HELP"))
        os._exit(0 if knob("STUB_HELP") else 2)
    if view := knob("STUB_VIEW"):
        write_view(argv, view)
    rejected = knob("STUB_REJECT")
    if rejected and any(word.partition("=")[0] == rejected for word in argv):
        say(f"{os.path.basename(argv[0])}: error: unrecognized arguments: {rejected}")
        os._exit(2)
    say(f"INFO: {os.path.basename(argv[0])} stub, pid {os.getpid()}")
    Engine(argv).run()


if __name__ == "__main__":
    main(sys.argv)
