"""A node made of folders, driven through the installed `llmgw` as its user would: no GPU, no root, no network.

A test speaks of it in its own words: `state = node.state(node.model(port=…))`, `node.apply(state)`, `node.engine()`.
Nothing here knows how llmgw is built, only the contract.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from tests.fakes import procs
from tests.fakes.nvidia_smi import h100, install_nvidia_smi
from tests.fakes.stub_engine import install_engines

LLMGW = str(Path(sys.executable).with_name("llmgw"))
Json = dict[str, Any]
QUESTIONS = {"--version", "--help", "--help=all"}  # an engine that is asked this serves nothing


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        """Both streams, for "it says so somewhere"."""
        return self.out + self.err

    def json(self) -> Json:
        """Standard output, which must be one document."""
        document: Json = json.loads(self.out)
        return document


class Node:
    """Folders `bin` (the whole PATH), `sys`, `claims`, `home`, `tmp`, `state`, below one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin, self.sysfs, self.claims, self.state_dir = (root / n for n in ("bin", "sys", "claims", "state"))
        for folder in (self.bin, self.sysfs, self.claims, root / "home", root / "tmp", root / "control"):
            folder.mkdir()
        self.env = {
            "PATH": str(self.bin),  # a real nvidia-smi of the machine must not be found
            "HOME": str(root / "home"),
            "TMPDIR": str(root / "tmp"),
            "LANG": "C.UTF-8",
            "LLMGW_STATE_DIR": str(self.state_dir),
            "LLMGW_SYSFS_ROOT": str(self.sysfs),
        }
        self.ports: set[int] = set()
        self._begun: list[subprocess.Popen[str]] = []
        install_engines(self.bin)
        self.gpus(*map(h100, range(8)))

    # -- what there is
    def gpus(self, *cards: Json | str, **description: Any) -> None:
        """Give the node these cards, also while something runs; for the description see `install_nvidia_smi`."""
        install_nvidia_smi(self.bin, {"gpus": cards, "claims": str(self.claims), **description})

    def without_gpus(self) -> None:
        """Take nvidia-smi away."""
        (self.bin / "nvidia-smi").unlink(missing_ok=True)

    def port(self, count: int = 1) -> int:
        """The first of so many adjacent free ports."""
        first = procs.free_port(count)
        self.ports.update(range(first, first + count))
        return first

    def weights(self) -> str:
        """A folder that looks like a local checkpoint."""
        folder = self.root / "weights"
        folder.mkdir(exist_ok=True)
        config = {"architectures": ["LlamaForCausalLM"], "num_attention_heads": 64, "num_key_value_heads": 8}
        (folder / "config.json").write_text(json.dumps(config))
        return str(folder)

    def model(self, name: str = "chat", *, stub: Json | None = None, **fields: Any) -> Json:
        """An entry of `models:`: a vLLM stub on one GPU unless told otherwise; `stub` are its knobs, less STUB_."""
        knobs = {f"STUB_{knob}": str(value) for knob, value in (stub or {}).items()}
        own = {"FAKE_GPU_CLAIMS": str(self.claims), "STUB_CONTROL": str(self._control(name))}
        return {
            "name": name,
            "model": self.weights(),
            "engine": "vllm",
            "port": fields.get("port") or self.port(fields.get("replicas", 1)),
            "stop_grace": "2s",
            **fields,
            "env": own | knobs | fields.get("env", {}),
        }

    def state(self, *models: Json, file: str = "node.yaml", **top: Any) -> Path:
        """Write a state file; JSON is YAML."""
        path = self.root / file
        path.write_text(json.dumps({"version": 1, **top, "models": models}, indent=2) + "\n")
        return path

    def tell(self, model: str = "chat", **knobs: Any) -> None:
        """Change knobs of a stub while it runs, or before its next start."""
        fresh = self._control(model).with_suffix(".new")
        fresh.write_text(json.dumps({f"STUB_{knob}": str(value) for knob, value in knobs.items()}))
        fresh.rename(self._control(model))

    def _control(self, model: str) -> Path:
        return self.root / "control" / f"{model}.json"

    # -- the product
    def llmgw(self, *args: Any, code: int | None = 0, stdin: str | None = None, timeout: float = 60) -> Result:
        """Run llmgw and demand this exit code (None: any) and no traceback."""
        start = time.monotonic()
        process = self.begin(*args, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        finally:
            process.kill()
        result = Result(process.returncode, out, err, time.monotonic() - start)
        assert "Traceback (most recent call last)" not in result.err, result.err  # logs of engines may hold one
        assert code in (None, result.code), f"llmgw {args} ended with {result.code}, not {code}:\n{result.text}"
        return result

    def begin(self, *args: Any, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start llmgw in a session of its own and return at once; who still runs in the end is ended."""
        process = subprocess.Popen(
            [LLMGW, *map(str, args)],
            env=self.env,
            cwd=self.root,
            text=True,
            errors="replace",
            start_new_session=True,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._begun.append(process)
        return process

    def plan(self, state: Path, *args: Any, code: int = 0) -> Json:
        """The plan document."""
        return self.llmgw("plan", state, "-o", "json", *args, code=code).json()

    def actions(self, state: Path, code: int = 0) -> dict[str, str]:
        """Engine -> action, as planned; engines that are kept are left out."""
        actions = self.plan(state, code=code)["actions"]
        return {action["engine"]: action["action"] for action in actions if action["action"] != "keep"}

    def apply(self, state: Path, *args: Any, code: int = 0) -> Result:
        """Apply the state file."""
        return self.llmgw("apply", state, *args, code=code)

    def status(self) -> dict[str, Json]:
        """Engine -> its row of the status document."""
        return {row["engine"]: row for row in self.llmgw("status", "-o", "json").json()["engines"]}

    def engine(self, name: str = "chat@0") -> Json:
        """The status of one engine."""
        return self.status()[name]

    # -- what the kernel and the engines say
    def pids(self) -> dict[int, str]:
        """Live processes of this node, pid -> command line."""
        return procs.processes_of(self.root)

    def stubs(self) -> dict[int, str]:
        """Those of them that are engines: leaders, and workers by their descent or their name; no mere questions."""
        programs = tuple(f"{sys.executable} {self.bin}/{name} " for name in ("vllm", "sglang", "llama-server"))
        found = {pid: line for pid, line in self.pids().items() if line.startswith(("VLLM::", *programs))}
        return {pid: line for pid, line in found.items() if not QUESTIONS.intersection(line.split())}

    def supervisor_of(self, pid: int) -> int:
        """The parent of an engine's leader, which must be a process of this node."""
        parent = procs.parent_of(pid)
        assert parent in self.pids(), f"engine {pid} has no supervisor, its parent is {parent}"
        return parent

    def supervisor_named(self, engine: str) -> int:
        """The supervisor of that engine, also of an adopted one, by its command line: it names engine and GPUs."""
        found = [pid for pid, line in self.pids().items() if line.startswith("llmgw: supervisor ") and engine in line]
        assert len(found) == 1, f"{engine} has {len(found)} supervisors"
        return found[0]

    def kill(self, pid: int, signum: signal.Signals = signal.SIGKILL) -> None:
        """Signal a process of this node; SIGKILL waits for the end."""
        procs.kill(pid, self.root, signum)

    def view(self, path: Path) -> Json:
        """What a stub with STUB_VIEW saw of itself."""
        document: Json = json.loads(procs.until(lambda: path.exists() and path.read_text(), what=f"no view in {path}"))
        return document

    def get(self, port: int, path: str = "/v1/models") -> tuple[int, str]:
        """Status and body of a GET on the loopback."""
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def files(self) -> dict[str, tuple[int, int]]:
        """All that lies below the root, with size and time of change: what must be equal when nothing was written."""
        paths = sorted(path for path in self.root.rglob("*") if self.claims not in path.parents)  # not llmgw's
        return {str(p.relative_to(self.root)): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in paths}

    # -- the end
    def leave(self) -> None:
        """Stop what runs through llmgw, then prove that nothing is left: no process, no listener.

        What is left is killed, after a proof that it is this node's, and fails the test.
        """
        for process in self._begun:
            process.kill()
            process.wait()
            for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
                stream.close()
        try:
            if self.pids():
                self.llmgw("stop", "--all", code=None)
        finally:
            left = self.pids()
            deadline = time.monotonic() + 5
            while (now := self.pids()) and time.monotonic() < deadline:
                for pid in now:  # supervisors start engines anew: again until there is none
                    self.kill(pid)
            listening = self.ports & procs.listening_ports()
            shutil.rmtree(self.root, ignore_errors=True)
        assert not left, f"processes were left over: {left}"
        assert not listening, f"somebody listens on ports of this node: {listening}"
