import pytest

from llmgw_reconcile.plan.actions import FieldChange
from llmgw_reconcile.plan.diff import diff_documents, diff_launch, secret_changes

TEMPLATE = {"file": "/srv/t.jinja", "digest": "sha256:aa"}


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        pytest.param({"port": 8000}, {"port": 8000}, [], id="equal-documents-differ-in-nothing"),
        pytest.param({}, {}, [], id="empty-documents-differ-in-nothing"),
        pytest.param({"port": 8000}, {"port": 8001}, [("port", 8000, 8001)], id="a-changed-field-has-both-values"),
        pytest.param({}, {"dtype": "auto"}, [("dtype", None, "auto")], id="an-added-field-was-absent"),
        pytest.param({"dtype": "auto"}, {}, [("dtype", "auto", None)], id="a-removed-field-is-absent"),
        pytest.param(
            {"gpus": {"class": "h100-80g"}},
            {"gpus": {"class": "a100-80g", "share": True}},
            [("gpus.class", "h100-80g", "a100-80g"), ("gpus.share", None, True)],
            id="a-mapping-gives-dotted-fields",
        ),
        pytest.param(
            {"env": {"B": "1", "A": "1"}}, {"env": {"A": "1", "B": "1"}}, [], id="the-order-of-keys-is-no-change"
        ),
        pytest.param({"env": {"A": "1"}}, {}, [("env.A", "1", None)], id="a-removed-mapping-loses-each-key"),
        pytest.param(
            {"served_model_name": ["a"]},
            {"served_model_name": ["a", "b"]},
            [("served_model_name", ["a"], ["a", "b"])],
            id="a-list-is-one-value",
        ),
        pytest.param({"z": 1, "a": 1}, {"z": 2, "a": 2}, [("a", 1, 2), ("z", 1, 2)], id="changes-are-sorted-by-field"),
    ],
)
def test_fields_that_differ_between_two_documents(before, after, changes):
    found = diff_documents(before, after, forces_replace=True)
    assert found == tuple(FieldChange(field, was, now, True) for field, was, now in changes)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        pytest.param(
            ["--seed", "1", "--eager"],
            ["--seed", "2", "--eager"],
            [("args.--seed", "1", "2")],
            id="only-the-flag-that-changed-shows",
        ),
        pytest.param(["--eager"], [], [("args.--eager", True, None)], id="a-flag-without-value-is-true"),
        pytest.param(
            ["--lora", "a"], ["--lora", "a", "b"], [("args.--lora", "a", ["a", "b"])], id="several-values-are-a-list"
        ),
        pytest.param(
            ["--seed", "-1"], ["--seed", "-2"], [("args.--seed", "-1", "-2")], id="a-negative-number-is-a-value"
        ),
        pytest.param(["warm"], ["cold"], [("args", ["warm"], ["cold"])], id="words-before-any-flag-are-one-value"),
        pytest.param(
            ["--a", "--b"],
            ["--b", "--a"],
            [("args", ["--a", "--b"], ["--b", "--a"])],
            id="another-order-alone-shows-the-whole-list",
        ),
        pytest.param(
            ["--seed=1"],
            ["--seed", "1"],
            [("args", ["--seed=1"], ["--seed", "1"])],
            id="another-spelling-alone-shows-the-whole-list",
        ),
        pytest.param(
            ["--chat-template", TEMPLATE],
            ["--chat-template", TEMPLATE | {"digest": "sha256:bb"}],
            [("args.--chat-template", TEMPLATE, {"file": "/srv/t.jinja", "digest": "sha256:bb"})],
            id="a-file-changes-by-content",
        ),
    ],
)
def test_arguments_differ_flag_by_flag(before, after, changes):
    found = diff_documents({"args": before}, {"args": after}, forces_replace=True)
    assert found == tuple(FieldChange(field, was, now, True) for field, was, now in changes)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        pytest.param(
            {"api_key": {"file": "/etc/a"}},
            {"api_key": {"file": "/etc/b"}},
            ("api_key", {"file": "/etc/a"}, {"file": "/etc/b"}),
            id="a-reference-shows-where-it-points",
        ),
        pytest.param(
            {"env": {"X": "canary"}},
            {"env": {"X": {"env": "MY_X"}}},
            ("env.X", "(secret)", {"env": "MY_X"}),
            id="a-literal-that-became-a-reference-was-a-secret",
        ),
        pytest.param(
            {"env": {"X": {"env": "MY_X"}}},
            {"env": {"X": "canary"}},
            ("env.X", {"env": "MY_X"}, "(secret)"),
            id="a-reference-that-became-a-literal-is-a-secret",
        ),
        pytest.param(
            {"env": {"HF_TOKEN": "canary"}},
            {"env": {"HF_TOKEN": "canary2"}},
            ("env.HF_TOKEN", "(secret)", "(secret)"),
            id="a-literal-named-like-a-secret-is-masked",
        ),
        pytest.param(
            {"args": ["--hf-token", "canary"]},
            {"args": ["--hf-token", "canary2"]},
            ("args.--hf-token", "(secret)", "(secret)"),
            id="so-is-a-flag",
        ),
        pytest.param(
            {"args": ["--api-key", "canary", "--eager"]},
            {"args": ["--eager", "--api-key=canary"]},
            ("args", ["--api-key", "(secret)", "--eager"], ["--eager", "--api-key=(secret)"]),
            id="and-within-a-whole-list",
        ),
        pytest.param(
            {"env": {"HTTPS_PROXY": "http://me:canary@proxy:3128"}},
            {},
            ("env.HTTPS_PROXY", "http://(secret)@proxy:3128", None),
            id="and-the-user-of-an-address",
        ),
    ],
)
def test_a_changed_secret_never_shows(before, after, change):
    found = diff_documents(before, after, forces_replace=True)
    assert found == (FieldChange(*change, True),)
    assert "canary" not in repr(found)


@pytest.mark.parametrize(
    ("recorded", "derived", "changes"),
    [
        pytest.param({"argv": ["/a/vllm"]}, {"argv": ["/a/vllm"]}, [], id="an-equal-launch-notes-nothing"),
        pytest.param(
            {"argv": ["/a/vllm", "serve"]},
            {"argv": ["/b/vllm", "serve"]},
            [("executable", "/a/vllm", "/b/vllm")],
            id="another-executable",
        ),
        pytest.param(
            {"argv": ["/a/vllm", "serve", "m", "--port", "1"]},
            {"argv": ["/a/vllm", "serve", "m", "--port", "1", "--timeout", "30"]},
            [("command.--timeout", None, "30")],
            id="a-flag-that-a-newer-llmgw-plans",
        ),
        pytest.param(
            {"argv": ["/a/vllm", "serve", "m"]},
            {"argv": ["/a/vllm", "serve", "n"]},
            [("command", ["serve", "m"], ["serve", "n"])],
            id="another-word-before-the-flags",
        ),
        pytest.param(
            {"argv": ["/a/vllm"], "env": {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "LANG": "C.UTF-8"}},
            {"argv": ["/a/vllm"], "env": {"NCCL_IB_HCA": "=mlx5_1:1", "LANG": "C.UTF-8"}},
            [("env.NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1", "=mlx5_1:1")],
            id="an-adapter-that-went-down",
        ),
        pytest.param(
            {"argv": ["/a/vllm"], "probe_timeout": 5.0},
            {"argv": ["/a/vllm"], "probe_timeout": 9.0},
            [],
            id="what-only-the-supervisor-uses-is-not-noted",
        ),
        pytest.param({}, {}, [], id="an-empty-record-notes-nothing"),
        pytest.param(
            {"engine_version": "0.33.0"},
            {"engine_version": "0.34.1"},
            [("engine_version", "0.33.0", "0.34.1")],
            id="another-version-installed",
        ),
        pytest.param({"engine_version": None}, {"engine_version": "0.34.1"}, [], id="a-version-that-was-not-recorded"),
        pytest.param({"engine_version": "0.33.0"}, {}, [], id="a-version-that-is-not-known-now"),
        pytest.param(
            {"model_files": {"config.json": "612 bytes of May", "a.index.json": "9 bytes of May"}},
            {"model_files": {"config.json": "644 bytes of June", "a.index.json": "9 bytes of May"}},
            [("model.config.json", "612 bytes of May", "644 bytes of June")],
            id="a-model-whose-content-changed",
        ),
        pytest.param(
            {"model_files": {"commit": "aa"}},
            {"model_files": {"commit": "bb"}},
            [("model.commit", "aa", "bb")],
            id="a-branch-that-moved-in-the-cache",
        ),
        pytest.param({"model_files": {}}, {"model_files": {"config.json": "x"}}, [], id="a-model-that-was-not-seen"),
        pytest.param({"model_files": {"config.json": "x"}}, {"model_files": {}}, [], id="a-model-that-is-gone"),
    ],
)
def test_what_the_next_start_would_do_differently(recorded, derived, changes):
    found = diff_launch(recorded, derived)
    assert found == tuple(FieldChange(field, was, now, False) for field, was, now in changes)


@pytest.mark.parametrize(
    ("recorded", "now", "fields"),
    [
        pytest.param({"env.T": "d1"}, {"env.T": "d1"}, [], id="the-same-digest-is-no-change"),
        pytest.param({"env.T": "d1"}, {"env.T": "d2"}, ["env.T"], id="another-digest-is-a-change"),
        pytest.param({"env.T": "d1"}, {"env.T": None}, [], id="what-cannot-be-read-is-not-compared"),
        pytest.param({}, {"env.T": "d2"}, [], id="what-was-not-recorded-is-not-compared"),
        pytest.param({"env.T": "d1"}, {}, [], id="what-is-no-longer-wanted-is-a-matter-of-the-spec"),
        pytest.param(
            {"env.T": "d1", "api_key": "d1"}, {"env.T": "d2", "api_key": "d2"}, ["api_key", "env.T"], id="sorted"
        ),
    ],
)
def test_secrets_are_compared_by_digest_and_shown_as_changed_only(recorded, now, fields):
    assert secret_changes(recorded, now) == tuple(FieldChange(f, "(secret)", "(secret)", True) for f in fields)
