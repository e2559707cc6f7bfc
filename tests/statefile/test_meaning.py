import pytest

from tests.statefile.states import HEAD, diagnostics_of, errors_of, with_field


def test_two_models_of_one_name_are_refused_with_both_places():
    text = HEAD + "  - name: chat\n    model: acme/other\n    engine: vllm\n"
    assert errors_of(text) == ["node.yaml:6:11: models[1].name: the name of another model too, at node.yaml:3:11"]


def test_each_further_twin_is_told_apart():
    entry = "  - {name: a, model: acme/tiny, engine: vllm}\n"
    assert errors_of(f"version: 1\nmodels:\n{entry * 3}") == [
        "node.yaml:4:12: models[1].name: the name of another model too, at node.yaml:3:12",
        "node.yaml:5:12: models[2].name: the name of another model too, at node.yaml:3:12",
    ]


@pytest.mark.parametrize("field", ["model", "engine"])
def test_a_field_that_every_model_needs_must_be_given_somewhere(field):
    (line,) = [line for line in HEAD.splitlines() if line.startswith(f"    {field}:")]
    text = HEAD.replace(f"{line}\n", "")
    (error,) = errors_of(text)
    assert error.startswith(f"node.yaml:3:5: models[0].{field}: missing, expected ")
    assert diagnostics_of(f"defaults: {{{line.strip()}}}\n{text}") == ()


@pytest.mark.parametrize("ports", ["8099-8000", "1000-8000", "8000-70000"])
def test_a_range_of_ports_is_one_of_ports_and_goes_upwards(ports):
    assert errors_of(f"node: {{ports: {ports}}}\n{HEAD}") == [
        f"node.yaml:1:15: node.ports: found '{ports}', expected two ports from 1024 to 65535, the lower one first"
    ]


def test_a_range_of_one_port_is_a_range():
    assert diagnostics_of(f"node: {{ports: 8000-8000}}\n{HEAD}") == ()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        # 131072 is the kernel's limit for one string: NUL and, of a variable, name and = included.
        pytest.param(f"env: {{AB: {'x' * 131068}}}", None, id="largest-variable"),
        pytest.param(
            f"env: {{AB: {'x' * 131069}}}",
            "node.yaml:6:15: models[0].env.AB: found 131073 bytes, expected at most 131072 bytes for one string",
            id="variable-too-large",
        ),
        pytest.param(
            f"args: ['{'é' * 65536}']",
            "node.yaml:6:12: models[0].args[0]: found 131073 bytes, expected at most 131072 bytes for one string",
            id="argument-too-large-in-bytes",
        ),
        pytest.param(
            f"args: [{', '.join(['x' * 99_999] * 11)}]",
            "node.yaml:3:5: models[0]: found 1100000 bytes of arguments and variables, expected at most 1048576 bytes",
            id="too-many-together",
        ),
    ],
)
def test_what_the_kernel_would_not_pass_on_is_refused_before_anything_is_stopped(line, error):
    assert errors_of(with_field(line)) == ([error] if error else [])
