"""A stand-in for nvidia-smi: answers the questions of llmgw from the description of a node.

`install_nvidia_smi(folder, node)` writes the command `nvidia-smi` and, beside it, the description `nvidia-smi.json`;
call it again to change the node, also while something runs. Nothing is taken from the environment but the claims
folder, so that the tool answers in a supervisor's clean environment too. The description, all of it optional:

gpus        list of cards, {field of --query-gpu: value}, made by `h100(0)`, `a100(1)`, `card(...)`; a field that is
            absent prints [N/A]; any text may be a value (`ERR!`, `[Unknown Error]`). A text in place of a card is
            printed as it is, in its place among the rows: `lost_card("0000:30:00.0")`
processes   list of {"gpu": uuid, "pid": int, "mib": int or text, "name": text}: rows of --query-compute-apps
driver, cuda   versions
topology    what `topo -m` prints; without it nothing
slices      MIG devices: {uuid of their card: [mig_slice("1g.10gb", …)]}: `-L` lists them, and the table their memory
            and their processes
claims      folder of claim files, one for each process that holds memory: {"pid", "gpus": [uuid], "mib",
            "drain_polls"}. A living process is listed with its memory; after its end the memory stays used, by nobody,
            for that many calls of --query-gpu. Default: FAKE_GPU_CLAIMS
columns     fields in the order in which they are printed, whatever the order of asking
unknown     fields that this driver does not know: exit code 2
delay       seconds before any answer
hang        true: no answer ever, SIGTERM is ignored
code        exit code after the usual answer
cut         so many characters of the usual answer are printed, and no more
replies     {"--query-gpu": {"text": "…", "code": 6, "error": "…"}}: the answer to calls whose first argument begins
            so; "" stands for any call; `text` goes to standard output, `error` to standard error
recorded    answers that a real tool gave, as `llmgw agent record` has them under `tools`: they are given again, for
            a query with the columns that are asked for, as far as they were recorded
calls       file that gets a line for each call: its arguments
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

Json = dict[str, Any]

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"
DRIVER = "570.86.15"
CUDA = "12.8"
THROTTLE, EVENT = "clocks_throttle_reasons.", "clocks_event_reasons."  # drivers from 535 on know both, and print one
UNITS = {"memory.total": "MiB", "memory.used": "MiB", "used_gpu_memory": "MiB"}


def install_nvidia_smi(folder: str | os.PathLike[str], node: Json) -> None:
    """Write the command and the description of its node into a folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    command = os.path.join(folder, "nvidia-smi")
    _write_whole(f"{command}.json", json.dumps(node))
    with open(f"{command}.new", "w") as file:
        file.write(f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {here!r})\n")
        file.write(f"from nvidia_smi import main\nsys.exit(main(sys.argv[1:], {command + '.json'!r}))\n")
    os.chmod(f"{command}.new", 0o755)
    os.rename(f"{command}.new", command)


def h100(index: int, **fields: Any) -> Json:
    """A healthy, idle H100; `fields` by their names with `_` for `.`: `h100(0, memory_used=512)`."""
    return card(index, H100, 81559, "9.0", **fields)


def a100(index: int, **fields: Any) -> Json:
    """A healthy, idle A100 of 80 GB."""
    return card(index, A100, 81920, "8.0", **fields)


def card(index: int, name: str, mib: int | str | None, capability: str, **fields: Any) -> Json:
    """Any card. UUID and PCI address follow from the index: see `uuid_of`; its PCI address is `00000000:1X:00.0`."""
    row = {
        "index": index,
        "uuid": uuid_of(index),
        "name": name,
        "pci.bus_id": f"00000000:{0x10 + index:02X}:00.0",
        "memory.total": mib,
        "memory.used": 1 if mib is not None else None,
        "compute_cap": capability,
        "temperature.gpu": 31,
        "ecc.errors.uncorrected.volatile.total": 0,
        "mig.mode.current": "Disabled",
        "remapped_rows.pending": "No",
        "remapped_rows.failure": "No",
        "display_active": "Disabled",
        "persistence_mode": "Enabled",
        **{f"{EVENT}{name}": "Not Active" for name in ("hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown")},
    }
    known = {name.replace(".", "_"): name for name in (*row, "retired_pages.pending", "driver_version")}
    return row | {known[name]: value for name, value in fields.items()}


def uuid_of(index: int) -> str:
    """The UUID that `card` gives to the card of that index."""
    return f"GPU-0000000{index:x}-aaaa-4bbb-8ccc-dddddddddd{index:02x}"


def lost_card(address: str) -> str:
    """The sentence that stands in place of the row of a card that has fallen off the bus."""
    return f"Unable to determine the device handle for GPU{address}: Unknown Error"


def mig_slice(
    profile: str, number: int, mib: int, *, instance: int | None = None, used: int = 9, pids: Any = ()
) -> Json:
    """A MIG device; those of one card with the same instance share its memory. `pids`: [(pid, MiB)]."""
    gi = number + 7 if instance is None else instance
    return {"profile": profile, "number": number, "mib": mib, "instance": gi, "used": used, "pids": list(pids)}


def slice_uuid(number: int) -> str:
    """The UUID of the MIG device of that number."""
    return f"MIG-0000000{number:x}-aaaa-5bbb-8ccc-dddddddddd{number:02x}"


def memory_claimed(folder: str, gpu: str) -> int:
    """MiB of a card that are claimed now, by the living or still draining."""
    return sum(claim["mib"] for _, claim in _claims(folder) if gpu in claim["gpus"] and _holds(claim))


def main(argv: list[str], description: str) -> int:
    """Answer one call; returns the exit code."""
    with open(description) as file:
        node: Json = json.load(file)
    if calls := node.get("calls"):
        with open(calls, "a") as file:
            file.write(" ".join(argv) + "\n")
    if node.get("hang"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(36000)
    time.sleep(node.get("delay", 0))
    if "recorded" in node:
        return _replay(argv, node["recorded"])
    for start, reply in node.get("replies", {}).items():
        if " ".join(argv).startswith(start):
            sys.stderr.write(reply.get("error", ""))
            sys.stdout.write(reply.get("text", ""))
            return int(reply.get("code", 0))
    text, code = _answer(argv, node)
    sys.stdout.write(text[: node.get("cut", len(text))])
    return code or int(node.get("code", 0))


def _answer(argv: list[str], node: Json) -> tuple[str, int]:
    question, _, asked = (argv or [""])[0].partition("=")
    options = next((argument for argument in argv if argument.startswith("--format=")), "")
    driver, cuda = node.get("driver", DRIVER), node.get("cuda", CUDA)
    if question == "--query-gpu":
        return _table(_gpu_rows(node, driver), asked.split(","), options, node)
    if question == "--query-compute-apps":
        return _table(_process_rows(node), asked.split(","), options, node)
    if question == "--version":
        return f"NVIDIA-SMI version  : {driver}\nDRIVER version      : {driver}\nCUDA Version        : {cuda}\n", 0
    if not question:
        head = f"| NVIDIA-SMI {driver}    Driver Version: {driver}    CUDA Version: {cuda}    |\n"
        return head + _mig_table(node), 0
    if argv == ["topo", "-m"]:
        return node.get("topology", ""), 0
    if argv == ["-L"]:
        return _list(node), 0
    return f"Invalid combination of input arguments: {' '.join(argv)}\n", 2


def _table(rows: list[Json | str], asked: list[str], options: str, node: Json) -> tuple[str, int]:
    for field in asked:
        if field in node.get("unknown", ()):
            return f'Field "{field}" is not a valid field to query.\n\n', 2
    fields = [field for field in node.get("columns", ()) if field in asked]
    fields += [field for field in asked if field not in fields]
    fields = [field.replace(THROTTLE, EVENT) for field in fields]
    lines = [", ".join(f"{field} [{UNITS[field]}]" if field in UNITS else field for field in fields)]
    for row in rows:
        if isinstance(row, str):
            lines.append(row)
        else:
            lines.append(", ".join(_cell(field, row.get(field), "nounits" in options) for field in fields))
    return "".join(f"{line}\n" for line in lines), 0


def _cell(field: str, value: Any, nounits: bool) -> str:
    if value is None:
        return "[N/A]"
    return f"{value} {UNITS[field]}" if field in UNITS and isinstance(value, int) and not nounits else str(value)


def _gpu_rows(node: Json, driver: str) -> list[Json | str]:
    folder = _claims_folder(node)
    rows: list[Json | str] = []
    for gpu in node.get("gpus", ()):
        if not isinstance(gpu, str):
            gpu = {"driver_version": driver} | gpu
            claimed = memory_claimed(folder, gpu["uuid"])
            if claimed and isinstance(gpu["memory.used"], int):
                gpu["memory.used"] += claimed
        rows.append(gpu)
    _drain(folder)
    return rows


def _process_rows(node: Json) -> list[Json | str]:
    named = [(p["gpu"], p["pid"], p.get("mib"), p.get("name", "python3")) for p in node.get("processes", ())]
    for _, claim in _claims(_claims_folder(node)):
        if _is_alive(claim["pid"]):
            named += [(gpu, claim["pid"], claim["mib"], "VLLM::EngineCore") for gpu in claim["gpus"]]
    ours = [gpu.get("uuid") for gpu in node.get("gpus", ()) if not isinstance(gpu, str)]
    return [
        {"gpu_uuid": gpu, "pid": pid, "used_gpu_memory": mib, "process_name": name}
        for gpu, pid, mib, name in named
        if gpu in ours
    ]


def _whole(node: Json) -> list[Json]:
    return [gpu for gpu in node.get("gpus", ()) if not isinstance(gpu, str)]


def _list(node: Json) -> str:
    lines = []
    for gpu in _whole(node):
        lines.append(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})")
        slices = node.get("slices", {}).get(gpu["uuid"], ())
        lines += [f"  MIG {s['profile']:<12}Device {s['number']:>2}: (UUID: {slice_uuid(s['number'])})" for s in slices]
    return "".join(f"{line}\n" for line in lines)


def _mig_table(node: Json) -> str:
    lines = ["", "| MIG devices:", "|==================+==========================+"]
    processes = ["| Processes:"]
    for gpu in _whole(node):
        for one in node.get("slices", {}).get(gpu["uuid"], ()):
            at = f"|  {gpu['index']}   {one['instance']:>2}   {one['number']}  "
            lines.append(
                f"{at}{one['number']:>2}  |  {one['used']:>10}MiB / {one['mib']}MiB    | 16      0 |  1   0    1 |"
            )
            lines.append("|                  |           0MiB / 14809MiB    |           |             |")
            processes += [f"{at}{pid:>14}      C   ./serve      {mib}MiB |" for pid, mib in one["pids"]]
    return "".join(f"{line}\n" for line in (*lines, *processes)) if len(lines) > 3 else ""


def _replay(argv: list[str], recorded: list[Json]) -> int:
    question = (argv or [""])[0].partition("=")[0]
    for answer in reversed(recorded):  # the last one was accepted
        asked = (*answer["argv"][1:], "")
        if asked[0].partition("=")[0] == question:
            text = _project(answer["stdout"], argv[0]) if question.startswith("--query") else answer["stdout"]
            sys.stdout.write(text)
            sys.stderr.write(answer["stderr"])
            return int(answer["returncode"] or 0)
    return 2


def _project(text: str, query: str) -> str:
    """The recorded table with the columns that are asked for; those that were not recorded are [N/A]."""
    header, *rows = text.split("\n")
    recorded = {name.partition(" [")[0]: place for place, name in enumerate(header.split(", "))}
    asked = [field.replace(THROTTLE, EVENT) for field in query.partition("=")[2].split(",")]
    lines = [", ".join(asked)]
    for row in rows:
        cells = row.split(", ")
        whole = [cells[recorded[name]] if name in recorded else "[N/A]" for name in asked] if len(cells) > 1 else [row]
        lines.append(", ".join(whole))
    return "\n".join(lines)


def _claims_folder(node: Json) -> str:
    return str(node.get("claims") or os.environ.get("FAKE_GPU_CLAIMS", ""))


def _claims(folder: str) -> list[tuple[str, Json]]:
    found = []
    for name in sorted(os.listdir(folder)) if folder else []:
        if name.endswith(".json"):
            try:
                with open(os.path.join(folder, name)) as file:
                    found.append((os.path.join(folder, name), json.load(file)))
            except (OSError, ValueError):  # just being replaced or taken away
                continue
    return found


def _holds(claim: Json) -> bool:
    return _is_alive(claim["pid"]) or claim["drain_polls"] > 0


def _drain(folder: str) -> None:
    """One poll less for the memory of the dead; forget those that have none left."""
    for path, claim in _claims(folder):
        if _is_alive(claim["pid"]):
            continue
        if claim["drain_polls"] > 1:
            _write_whole(path, json.dumps(claim | {"drain_polls": claim["drain_polls"] - 1}))
        else:
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _write_whole(path: str, text: str) -> None:
    fresh = f"{path}.{os.getpid()}.new"
    with open(fresh, "w") as file:
        file.write(text)
    os.rename(fresh, path)
