"""Small trees in the format of /sys/class/infiniband, with made-up values."""

import os
from pathlib import Path

FREE = "0000:0000:0000:0000:0000:0000:0000:0000"


def infiniband(device, port=1, *, rate=400, lid="0x1", sm_lid="0x9", prefix="fe80:0000:0000:0000"):
    """An InfiniBand port in good order."""
    number = int(lid, 16)
    return {
        f"{device}/ports/{port}/state": "4: ACTIVE\n",
        f"{device}/ports/{port}/phys_state": "5: LinkUp\n",
        f"{device}/ports/{port}/rate": f"{rate} Gb/sec (4X NDR)\n",
        f"{device}/ports/{port}/link_layer": "InfiniBand\n",
        f"{device}/ports/{port}/lid": f"{lid}\n",
        f"{device}/ports/{port}/sm_lid": f"{sm_lid}\n",
        f"{device}/ports/{port}/gids/0": f"{prefix}:b83f:d203:0000:{number:04x}\n",
    }


def ethernet(device, gids=None, *, rate=200):
    """A RoCE port in good order; `gids`: index -> GID."""
    files = infiniband(device, rate=rate, lid="0x0", sm_lid="0x0") | {f"{device}/ports/1/link_layer": "Ethernet\n"}
    del files[f"{device}/ports/1/gids/0"]
    return files | {f"{device}/ports/1/gids/{index}": f"{gid}\n" for index, gid in (gids or {}).items()}


def down(files):
    """The same port without a cable."""
    changed = {"state": "1: DOWN\n", "phys_state": "3: Disabled\n"}
    return {name: changed.get(name.rpartition("/")[2], text) for name, text in files.items()}


def write_class(root, files):
    """Write files below class/infiniband; None: a file that fails when it is read; `>target`: a symbolic link.

    Names may begin with `../`, for what other parts of sysfs say of the adapters.
    """
    for name, text in files.items():
        path = Path(os.path.normpath(root / "class/infiniband" / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink(missing_ok=True)
            path.mkdir()  # opening it succeeds or fails, reading it fails in any case
        elif text.startswith(">"):
            path.symlink_to(text[1:])
        else:
            path.write_text(text)
