"""A folder where supervisors run stub engines, without the rest of llmgw."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.supervise.template import SupervisorTemplate
from llmgw_reconcile.supervisor.orders import Budgets, Orders, Target
from tests.fakes import procs
from tests.fakes.nvidia_smi import h100, install_nvidia_smi
from tests.fakes.stub_engine import install_engines

Json = dict[str, Any]
BUDGETS = Budgets(
    start_timeout=60.0,
    silence_timeout=60.0,
    restart_policy="always",
    max_restarts=5,
    reset_after=600.0,
    stop_grace=2.0,
)


class Place:
    """Folders `bin` (with engines and, when asked for, nvidia-smi), `claims` and `engines` below one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "claims", "engines"):
            (root / name).mkdir(mode=0o700)
        install_engines(root / "bin")
        self._ports: list[int] = []

    def gpus(self, *cards: Json | str, **description: Any) -> None:
        """Give the node these cards; eight H100s without arguments."""
        cards = cards or tuple(map(h100, range(8)))
        install_nvidia_smi(self.root / "bin", {"gpus": cards, "claims": str(self.root / "claims"), **description})

    def port(self) -> int:
        """A free one, on which nobody may listen in the end."""
        self._ports.append(procs.free_port())
        return self._ports[-1]

    def script(self, name: str, text: str) -> str:
        """A command in `bin`; its path."""
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def folder(self, engine: str = "chat@0") -> EngineDir:
        """The engine's folder, made when absent."""
        folder = EngineDir(str(self.root / "engines" / engine))
        folder.create()
        return folder

    def orders(
        self, engine: str = "chat@0", *, stub: Json | None = None, argv: tuple[str, ...] = (), **changes: Any
    ) -> Orders:
        """A vLLM stub unless `argv` says otherwise; `stub` are its knobs, less STUB_; `changes` replace fields.

        Fields of the target and of the budgets may be given as if they were the orders' own.
        """
        port = changes.pop("port", 0) or self.port()
        target = Target("127.0.0.1", port, ("chat",), None, "/health", 5.0)
        knobs = {f"STUB_{name}": str(value) for name, value in (stub or {}).items()}
        claims = str(self.root / "claims")
        vllm = str(self.root / "bin" / "vllm")
        serve = (vllm, "serve", "org/model", "--served-model-name", "chat", "--port", str(port))
        return Orders(
            engine=engine,
            folder=self.folder(engine).path,
            launch=changes.pop("launch", os.urandom(8).hex()),
            argv=argv or serve,
            env={"PATH": "/usr/bin:/bin", "FAKE_GPU_CLAIMS": claims, **knobs, **changes.pop("env", {})},
            gpus=changes.pop("gpus", ()),
            target=target._replace(**_taken(changes, Target._fields)),
            budgets=BUDGETS._replace(**_taken(changes, Budgets._fields)),
            loading_grace=changes.pop("loading_grace", 1.0),
            secrets=changes.pop("secrets", ()),
            held_above_mb=changes.pop("held_above_mb", 1024),
            **changes,
        )

    def supervise(self, *orders: Orders) -> None:
        """Start a supervisor for each, as apply does. Raises NodeError when one does not come up."""
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{self.root}/bin:{before}"  # where the supervisors find nvidia-smi
        template = SupervisorTemplate()
        try:
            for one in orders:
                template.send(one)
        finally:
            template.close()
            os.environ["PATH"] = before

    # -- what is recorded

    def record(self, name: str, engine: str = "chat@0") -> Json:
        """A record; empty when there is none."""
        try:
            document: Json = json.loads((self.root / "engines" / engine / name).read_text())
        except FileNotFoundError:
            return {}
        return document

    def phase(self, engine: str = "chat@0") -> str:
        """What its supervisor says."""
        return str(self.record("phase.json", engine).get("phase", ""))

    def detail(self, engine: str = "chat@0") -> str:
        """What it adds to that."""
        return str(self.record("phase.json", engine).get("detail", ""))

    def exits(self, engine: str = "chat@0") -> list[Json]:
        """The exit history."""
        return list(self.record("exits.json", engine).get("exits", []))

    def log(self, engine: str = "chat@0") -> str:
        """What the engine wrote."""
        return Path(self.folder(engine).log).read_text(errors="replace")

    def until(self, phase: str, engine: str = "chat@0", *, restarts: int | None = None, seconds: float = 30) -> Json:
        """The record of that phase, once it is published."""

        def look() -> Json:
            found = self.record("phase.json", engine)
            is_it = found.get("phase") == phase and restarts in (None, found["restarts"])
            return found if is_it else {}

        return procs.until(look, seconds, f"no {phase}: {self.record('phase.json', engine)}")

    def leader(self, engine: str = "chat@0") -> int:
        """The pid of the engine's leader."""
        return int(self.record("pid.json", engine)["pid"])

    def supervisor(self, engine: str = "chat@0") -> int:
        """The pid of its supervisor."""
        return int(self.record("phase.json", engine)["supervisor"]["pid"])

    def until_ended(self, engine: str = "chat@0", seconds: float = 30) -> None:
        """Wait for the end of its supervisor."""
        pid = self.supervisor(engine)
        procs.until(lambda: not procs.is_alive(pid), seconds, f"the supervisor goes on: {self.detail(engine)}")

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal a process of this place, after a proof."""
        procs.kill(pid, self.root, number)

    def stop(self, engine: str = "chat@0") -> None:
        """SIGTERM to its supervisor, and wait for that one's end."""
        self.kill(self.supervisor(engine), signal.SIGTERM)
        self.until_ended(engine)

    def processes(self) -> dict[int, str]:
        """Live processes of this place, pid -> command line."""
        return procs.processes_of(self.root)

    def leave(self) -> None:
        """Stop what runs, then prove that nothing is left; what is left is killed and fails the test."""
        for engine in os.listdir(self.root / "engines"):
            supervisor = self.supervisor(engine) if self.record("phase.json", engine) else 0
            if supervisor != os.getpid() and procs.belongs_to(supervisor, self.root):
                self.stop(engine)
        left = self.processes()
        for _ in range(100):
            if not (now := self.processes()):
                break
            for pid in now:
                self.kill(pid)
        crashes = [path.read_text() for path in self.root.glob("engines/*/supervisor.crash")]
        listening = procs.listening_ports() & set(self._ports)
        shutil.rmtree(self.root, ignore_errors=True)
        assert not crashes, f"supervisors crashed: {crashes}"
        assert not left, f"processes were left over: {left}"
        assert not listening, f"somebody listens on ports of this place: {listening}"


def _taken(changes: Json, names: tuple[str, ...]) -> Json:
    return {name: changes.pop(name) for name in names if name in changes}
