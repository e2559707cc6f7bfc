"""Secrets by reference: found, refused without being shown, and told apart by a digest that tells nothing else."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.secrets import digest_secret, make_digest_key, read_digest_key, resolve_secret
from llmgw_reconcile.model.desired import SecretRef

CANARY = "canary-7f3a"
KEY = bytes(range(32))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(CANARY)
    path.chmod(0o600)
    return path


def from_file(path: Path) -> str:
    return resolve_secret(SecretRef("file", str(path)), {})


def test_a_variable_is_looked_up() -> None:
    assert resolve_secret(SecretRef("env", "HF_TOKEN"), {"HF_TOKEN": CANARY}) == CANARY


@pytest.mark.parametrize("environ", [{}, {"HF_TOKEN": ""}], ids=["unset", "empty"])
def test_a_variable_without_a_value_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^the variable HF_TOKEN is not set$"):
        resolve_secret(SecretRef("env", "HF_TOKEN"), environ)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"], ids=repr)
def test_the_end_of_the_line_is_no_part_of_it(secret: Path, end: str) -> None:
    secret.write_text(CANARY + end)
    assert from_file(secret) == CANARY


def test_blanks_are_a_part_of_it(secret: Path) -> None:
    secret.write_text(f" {CANARY} \n")
    assert from_file(secret) == f" {CANARY} "


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640], ids=oct)
def test_a_file_of_its_owner_or_of_a_group_is_read(secret: Path, mode: int) -> None:
    secret.chmod(mode)
    assert from_file(secret) == CANARY


def test_a_link_to_it_is_followed_as_mounts_of_secrets_need_it(secret: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(secret)
    assert from_file(tmp_path / "link") == CANARY


@pytest.mark.parametrize("mode", [0o604, 0o606, 0o644], ids=oct)
def test_a_file_that_is_open_to_everybody_is_refused(secret: Path, mode: int) -> None:
    secret.chmod(mode)
    with pytest.raises(ValueError, match=rf"is open to everybody \(mode 0{mode:o}\); chmod 0600 it") as refusal:
        from_file(secret)
    assert CANARY not in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"canary-7f3a\0", "holds a NUL"),
        (b"canary-7f3a\xff", "is not text"),
        (b"x" * 65537, "is larger than 65536 bytes"),
    ],
    ids=["empty", "a-line-without-text", "nul", "binary", "large"],
)
def test_what_can_be_no_secret_is_refused_and_not_shown(secret: Path, content: bytes, reason: str) -> None:
    secret.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as refusal:
        from_file(secret)
    assert str(secret) in str(refusal.value)
    assert CANARY not in str(refusal.value)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name, reason in (("fifo", "not a plain file"), ("folder", "not a plain file"), ("absent", "No such file")):
        with pytest.raises(ValueError, match=reason):
            from_file(tmp_path / name)


def test_a_digest_tells_a_change_and_needs_the_key() -> None:
    assert digest_secret(KEY, CANARY) == digest_secret(KEY, CANARY)
    assert digest_secret(KEY, CANARY) != digest_secret(KEY, CANARY + "x")
    assert digest_secret(KEY, CANARY) != digest_secret(bytes(32), CANARY)
    assert digest_secret(KEY, CANARY) != hashlib.blake2b(CANARY.encode(), digest_size=16).hexdigest()
    assert len(digest_secret(KEY, CANARY)) == 32


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = str(tmp_path / "digest.key")
    assert read_digest_key(path) is None
    key = make_digest_key(path)
    assert (len(key), os.stat(path).st_mode & 0o777) == (32, 0o600)
    assert make_digest_key(path) == read_digest_key(path) == key


@pytest.mark.parametrize("content", [b"", b"\0" * 32, b"short"], ids=["empty", "nul-filled", "cut-off"])
def test_a_key_that_a_power_loss_spoilt_is_none_and_made_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "digest.key"
    path.write_bytes(content)
    path.chmod(0o600)
    assert read_digest_key(str(path)) is None
    assert len(set(make_digest_key(str(path)))) > 1


def test_a_key_that_is_not_ours_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "digest.key"
    make_digest_key(str(path))
    path.chmod(0o666)
    with pytest.raises(NodeError, match=r"cannot use .*/digest.key: others may write to it"):
        read_digest_key(str(path))
