"""The schema itself, and our checker of it held against the jsonschema package."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.desired import ModelSpec
from llmgw_reconcile.statefile.check import check
from llmgw_reconcile.statefile.document import parse_document
from llmgw_reconcile.statefile.load import state_schema
from llmgw_reconcile.statefile.tree import Entries, Items, resolve

SCHEMA = state_schema()
UNDERSTOOD = {
    "$ref", "type", "const", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "items", "minItems", "maxItems", "uniqueItems", "properties", "required", "additionalProperties", "propertyNames",
    "minProperties", "maxProperties", "title", "description", "examples", "definitions", "$schema", "$comment",
}  # fmt: skip


def schemas_below(schema):
    """The schema and every schema within."""
    yield schema
    for name in ("properties", "definitions"):
        for inner in schema.get(name, {}).values():
            yield from schemas_below(inner)
    for name in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(name), dict):
            yield from schemas_below(schema[name])


def _whole_pattern(validator, pattern, value, schema):
    """As ECMA 262 means it: `$` is the very end, where Python allows one more line break."""
    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield ValidationError("does not match")


def _is_integer(checker, value):
    """Contract: 2.0 is a fraction, though draft-07 lets it pass for an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


REFERENCE = extend(
    Draft7Validator,
    {"pattern": _whole_pattern},
    type_checker=Draft7Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)(SCHEMA)


def plain(node):
    """The tree as the values that a JSON Schema speaks of."""
    if isinstance(node, Entries):
        return {key.text: plain(value) for key, value in node.pairs}
    return [plain(item) for item in node.nodes] if isinstance(node, Items) else resolve(node)


def test_the_schema_is_a_schema():
    Draft7Validator.check_schema(SCHEMA)


def test_the_schema_uses_only_what_the_checker_understands():
    for schema in schemas_below(SCHEMA):
        assert schema.keys() <= UNDERSTOOD
        assert "$ref" in schema or "type" in schema


def test_every_pattern_is_about_the_whole_text():
    patterns = [schema["pattern"] for schema in schemas_below(SCHEMA) if "pattern" in schema]
    assert len(patterns) > 20
    assert [pattern for pattern in patterns if not (pattern.startswith("^") and pattern.endswith("$"))] == []


def test_every_mapping_refuses_unknown_keys_or_rules_their_names():
    for schema in schemas_below(SCHEMA):
        if "object" in schema.get("type", ()):
            assert schema.get("additionalProperties") is False or "propertyNames" in schema


def test_every_field_has_a_title_and_a_description_for_editors():
    for schema in schemas_below(SCHEMA):
        for name, field in schema.get("properties", {}).items():
            described = [field]
            while "$ref" in described[-1]:
                described.append(SCHEMA["definitions"][described[-1]["$ref"].rpartition("/")[2]])
            assert described[-1]["title"], name
            assert any("description" in step for step in described) or name in ("address", "name", "file"), name


def test_every_example_fits_its_own_field():
    for schema in schemas_below(SCHEMA):
        for text in schema.get("examples", ()):
            assert re.fullmatch(schema["pattern"], text), (schema["title"], text)


def test_defaults_take_every_field_of_a_model_but_its_name():
    of_models = SCHEMA["properties"]["models"]["items"]["properties"]
    assert list(SCHEMA["properties"]["defaults"]["properties"]) == list(of_models)[1:]
    assert next(iter(of_models)) == "name"


def test_schema_and_model_spec_name_the_same_fields():
    of_models = set(SCHEMA["properties"]["models"]["items"]["properties"])
    assert of_models - {"moved"} == set(ModelSpec._fields) - {"where", "positions", "config_files"}


# Values that fit somewhere and values that fit nowhere; each is tried in every field.
TEXTS = st.sampled_from(
    [
        *(
            "",
            "x\n",
            "chat",
            "acme/tiny",
            "/srv/m",
            "../m",
            "~/k",
            "m.gguf",
            "vllm",
            "cpu",
            "fp8",
            "auto",
            "surge",
            "always",
        ),
        *(
            "0s",
            "90s",
            "1h30m",
            "8000-8099",
            "GPU-1a",
            "0000:1b:00.0",
            "007",
            "12",
            "h100-80g",
            "does-not-fit",
            "0.33.*",
        ),
        *("::", "-x", "a b", "é", "$HOME", "true", "x" * 64, "mlx5_0:1", "routed"),
    ]
)
SCALARS = st.one_of(
    TEXTS, st.booleans(), st.sampled_from([0, 1, 2, -1, 1024, 65535, 65536, 10**30, 0.5, 1.0, 2.0, 0.0, 1.01])
)
KEYS = st.sampled_from(
    ["env", "file", "name", "address", "class", "ids", "share", "policy", "reset_after", "from", "X", "a-b"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=5,
)
FIELDS = st.sampled_from([*SCHEMA["properties"]["models"]["items"]["properties"], "unknown"])
SECTIONS = st.dictionaries(FIELDS, VALUES, max_size=3)
NODES = st.dictionaries(st.sampled_from([*SCHEMA["definitions"]["node"]["properties"], "unknown"]), VALUES, max_size=2)
STATES = st.fixed_dictionaries(
    {
        "version": st.sampled_from([1, 1, 1, 2, "1"]),
        "models": st.lists(SECTIONS.map(lambda s: {"name": "chat", **s}), max_size=2),
    },
    optional={"defaults": SECTIONS, "node": NODES},
)


def as_yaml(state):
    return json.dumps(state, ensure_ascii=False).encode()


@given(state=st.one_of(STATES, VALUES))
@example({"version": 1, "models": [{"name": "x\n"}]})
@example({"version": 1, "models": [{"name": "a", "gpus": {"ids": [1, 1]}}]})
def test_the_checker_and_jsonschema_accept_and_refuse_the_same(state):
    root = parse_document(as_yaml(state))
    errors = [finding for finding in check(root, SCHEMA) if finding.severity is Severity.ERROR]
    assert (not errors) == REFERENCE.is_valid(plain(root)), errors


ONE_FIELD = st.tuples(FIELDS, VALUES)


@given(field=ONE_FIELD)
def test_the_checker_and_jsonschema_agree_on_each_field_alone(field):
    name, value = field
    root = parse_document(as_yaml({"version": 1, "models": [{"name": "chat", name: value}]}))
    errors = [finding for finding in check(root, SCHEMA) if finding.severity is Severity.ERROR]
    assert (not errors) == REFERENCE.is_valid(plain(root)), errors


GOOD = {
    "name": ["a", "llama-70b", "a" * 63, "0"],
    "model": ["acme/tiny", "tiny", "/srv/models/tiny.gguf", "acme/Tiny-GGUF:Q4_K_M"],
    "revision": ["main", "5f0b02c7", "refs/pr/3"],
    "executable": ["vllm", "/opt/vllm/bin/vllm", "python3.11"],
    "prefix": [[], ["numactl", "--cpunodebind=0"]],
    "served_model_name": ["chat", ["a", "b/c"]],
    "replicas": [0, 1, 256],
    "tensor_parallel_size": [1, 1024],
    "nodes": [["gpu-07"], [{"name": "a", "address": "10.0.0.1"}]],
    "max_model_len": [1, 32768],
    "gpu_memory_utilization": [0.01, 0.9, 1, 1.0],
    "gpus": [
        {},
        {"class": "h100-mig-3g.40gb"},
        {"ids": [0, "1", "0000:1b:00.0", "00000000:1B:00.0", "MIG-0a-1", "GPU-9f"]},
    ],
    "host": ["0.0.0.0", "::", "localhost", "fe80::1%eth0"],
    "port": [1024, 65535],
    "api_key": [{"env": "KEY"}, {"file": "/etc/key"}, {"file": "keys/a"}],
    "env": [{"A": "", "_b": 1, "C": False, "D": {"file": "/k"}}],
    "args": [[], ["--a", 1, 1.5, True, "", {"file": "./x"}]],
    "readiness": [{"start_timeout": "2h", "silence_timeout": "15m", "generate": False}],
    "restart": [{"policy": "never", "max_restarts": 0, "reset_after": "0s"}],
    "stop_grace": ["0s", "1h1m1s", "999999s"],
    "accept": [[], ["fp8-weight-only", "gpu-health:GPU-12"]],
    "labels": [{}, {"team": "search", "example.com/x": ""}],
}
BAD = {
    "name": ["", "-a", "a-", "A", "a_b", "a.b", "a/b", "..", "a" * 64, "a\n", 1, True],
    "model": ["", "./m", "../m", "~/m", "a/b/c", "m.gguf", "acme/m.safetensors", "-m", "https://h/m", "/a\nb", "/"],
    "revision": ["", "-x", "a b", 123, 0.5],
    "executable": ["", "./vllm", "bin/vllm", "-x", "~/vllm"],
    "prefix": ["nice", [1], [""]],
    "served_model_name": ["", "-a", "a b", [], ["a", "a"], 1],
    "replicas": [-1, 257, 1.0, "1"],
    "tensor_parallel_size": [0, -2, 2.0, True, 10**30],
    "nodes": ["gpu-07", [], [{"name": "a"}], ["a", "a"]],
    "max_model_len": [0, "32k", "auto", -1],
    "gpu_memory_utilization": [0, 0.0, 90, 1.01, -0.1, "0.9"],
    "gpus": [[0], {"class": "H100"}, {"ids": []}, {"ids": [-1]}, {"ids": ["x"]}, {"ids": [0, 0]}, {"count": 0}],
    "host": ["", "a b", "http://x"],
    "port": [22, 1023, 65536, 0, -1, "8000", 8000.0],
    "api_key": ["sk", {}, {"env": "KEY", "file": "/k"}, {"env": "A-B"}, {"file": "~/key"}, {"value": "x"}],
    "env": [["A=1"], {"A=B": 1}, {"": 1}, {"1A": 1}, {"A": [1]}, {"A": {}}, {"A": "x" * 131072}],
    "args": ["--a 1", [["--a"]], [{}], [{"env": "A"}], ["x" * 131072]],
    "readiness": [{"start_timeout": "0s"}, {"start_timeout": 90}, {"start_timeout": "0h0m"}, {"x": 1}],
    "restart": [{"policy": "on-failure"}, {"max_restarts": -1}, "always"],
    "stop_grace": ["", "60", 60, "1m1h", "1.5m", "1 m", "1d", "-1s", "1234567s"],
    "accept": ["does-not-fit", ["everything"], ["gpu-health"], ["does-not-fit", "does-not-fit"]],
    "labels": [["a"], {"team": 1}, {"": "x"}, {"-a": "x"}, {"a": "x\ny"}],
}


def _cases(table):
    return [
        pytest.param(name, value, id=f"{name}-{n}") for name, values in table.items() for n, value in enumerate(values)
    ]


@pytest.mark.parametrize(("name", "value"), _cases(GOOD))
def test_what_fits_a_field_is_accepted(name, value):
    root = parse_document(as_yaml({"version": 1, "models": [{"name": "chat", name: value}]}))
    assert check(root, SCHEMA) == []
    assert REFERENCE.is_valid(plain(root))


@pytest.mark.parametrize(("name", "value"), _cases(BAD))
def test_what_does_not_fit_a_field_is_refused(name, value):
    root = parse_document(as_yaml({"version": 1, "models": [{"name": "chat", name: value}]}))
    findings = check(root, SCHEMA)
    assert {finding.path[:3] for finding in findings} == {("models", 0, name)}
    assert not REFERENCE.is_valid(plain(root))


@pytest.mark.parametrize(
    ("node", "is_good"),
    [
        ({"name": "gpu-07", "ports": "8000-8099", "cordon": [0, "GPU-1"], "held_above_mb": 0, "fabric": "auto"}, True),
        ({"fabric": {"hcas": ["mlx5_0:1"], "socket_interface": "bond0", "rails": "routed"}}, True),
        ({"ports": "8000"}, False),
        ({"ports": 8000}, False),
        ({"fabric": "roce"}, False),
        ({"fabric": {"hcas": []}}, False),
        ({"held_above_mb": -1}, False),
        ({"cordon": 0}, False),
    ],
)
def test_the_node_block_is_checked_as_strictly(node, is_good):
    root = parse_document(as_yaml({"version": 1, "models": [], "node": node}))
    assert (check(root, SCHEMA) == []) is is_good
    assert REFERENCE.is_valid(plain(root)) is is_good
