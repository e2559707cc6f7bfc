"""Days in the life of the loop: all goes wrong at random, then nothing does, and the node is what its file says."""

from __future__ import annotations

import gc

import pytest

from llmgw_reconcile.model.observed import Phase
from tests.agent.simulation import MAX_RESTARTS, Day, Node

STORM, CALM = 2700.0, 900.0  # seconds
POOL = ("chat", "code", "embed", "rank", "vision")


def model(name, **changed):
    number = POOL.index(name)
    plain = {"name": name, "model": f"acme/{name}", "engine": "vllm", "port": 8000 + number}
    return plain | ({"liveness": {"failures": 3}} if number % 2 == 0 else {}) | changed


class Weather:
    """What happens to a node."""

    def __init__(self, node):
        self.node, self.random = node, node.random
        self.models = [model(name) for name in POOL[:4]]
        node.write_models(self.models)

    def blow(self):
        """One thing of those that can happen."""
        happening = self.random.choice(HAPPENINGS)
        self.node.happened[happening.__name__] = self.node.happened.get(happening.__name__, 0) + 1
        happening(self)

    def clear(self):
        """Cards, disk and lock are well again, nobody hangs, and the file is a good one without a bad entry."""
        node = self.node
        node.lost_cards, node.disk_is_full, node.is_busy, node.may_kill = set(), False, False, False
        self.models = [{key: value for key, value in entry.items() if key != "args"} for entry in self.models]
        named = {entry["name"] for entry in self.models}
        living = {
            engine.name.partition("@")[0] for engine in node.engines.values() if engine.leader or engine.supervisor
        }
        if len(living - named) * 2 > len(living):  # a guard would refuse that, and rightly
            self.models += [model(name) for name in sorted(living - named)]
        node.write_models(self.models)
        for engine in node.engines.values():
            engine.hung = False

    # -- what can happen
    def serving(self):
        return [engine for engine in self.node.engines.values() if engine.phase is Phase.READY and engine.leader]

    def crash(self):
        for engine in self.serving()[:1]:
            self.node.crash(engine)

    def hang(self):
        for engine in self.serving()[-1:]:
            engine.hung = True

    def kill_a_supervisor(self):
        for engine in self.serving()[:1]:
            engine.supervisor = False

    def kill_an_engine_and_its_supervisor(self):
        for engine in self.serving()[-1:]:
            engine.supervisor = False
            self.node.crash(engine)

    def edit(self):
        self.models = [
            model(name, max_model_len=self.random.choice([2048, 4096]))
            for name in POOL
            if name == "chat" or self.random.random() < 0.8
        ]
        self.node.write_models(self.models)

    def edit_badly(self):
        self.models = [*self.models[:-1], {**self.models[-1], "args": ["--bad"]}]
        self.node.write_models(self.models)

    def break_the_file(self):
        self.node.write("models: [broken\n")

    def empty_the_file(self):
        self.node.write("")

    def empty_the_list(self):
        self.node.write_models([])

    def remove_the_file(self):
        self.node.file.unlink(missing_ok=True)

    def mend_the_file(self):
        self.node.write_models(self.models)

    def lose_a_card(self):
        self.node.lost_cards.add(self.random.randrange(8))

    def fill_the_disk(self):
        self.node.disk_is_full = not self.node.disk_is_full

    def hold_the_lock(self):
        self.node.is_busy = not self.node.is_busy

    def endanger_the_agent(self):
        self.node.may_kill = not self.node.may_kill


HAPPENINGS = (
    *(Weather.crash, Weather.hang, Weather.kill_a_supervisor, Weather.kill_an_engine_and_its_supervisor),
    *(Weather.edit, Weather.edit, Weather.edit_badly, Weather.mend_the_file, Weather.mend_the_file),
    *(Weather.break_the_file, Weather.empty_the_file, Weather.empty_the_list, Weather.remove_the_file),
    *(Weather.lose_a_card, Weather.fill_the_disk, Weather.hold_the_lock, Weather.endanger_the_agent),
)


def one_hour(day, weather):
    """Three quarters of storm, one of calm."""
    node, begin = day.node, day.node.clock.now
    node.blow, node.blow_at = weather.blow, begin
    day.run_until(begin + STORM)
    weather.clear()
    node.blow_at = float("inf")
    day.run_until(begin + STORM + CALM)


def assert_converged(node, models):
    """What the file asks for serves as it asks, or has used up its restarts; nothing else runs."""
    wanted = {f"{entry['name']}@0": entry for entry in models}
    assert not [name for name, engine in node.engines.items() if engine.leader and name not in wanted]
    for name, entry in wanted.items():
        engine = node.engines[name]
        assert engine.phase is Phase.READY or engine.restarts == MAX_RESTARTS, name
        assert engine.supervisor or engine.phase is Phase.FAILED
        assert engine.spec.document.get("max_model_len") == entry.get("max_model_len")


@pytest.mark.parametrize(("seed", "hours"), [(1, 24), (2, 4), (3, 4)])
def test_it_converges_after_each_storm_and_touches_no_engine_that_should_serve(tmp_path, seed, hours):
    node = Node(tmp_path, seed)
    day, weather = Day(node), Weather(node)
    objects = []
    for _ in range(hours):
        one_hour(day, weather)
        assert_converged(node, weather.models)
        assert node.touched == []
        gc.collect()
        objects.append(len(gc.get_objects()))
    assert day.kills > 0
    assert 0 < node.bad_runs <= node.happened["edit_badly"] + day.kills
    assert max(objects[1:]) < objects[0] * 1.02
