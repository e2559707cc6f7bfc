"""Carry out one step: stop what makes room, start what takes its place, and bring back what was replaced in vain.

Once begun, a step is seen through to its starts: an engine that was stopped for a replacement gets its new run also
when nobody waits for it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llmgw_reconcile.errors import LlmgwError
from llmgw_reconcile.model.launch import launch_document
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.order import Step, overlap
from llmgw_reconcile.supervise.intent import Intent, recorded_intent
from llmgw_reconcile.supervise.stopping import Stopping
from llmgw_reconcile.workflow.site import Site, Waiting, Work, side_by_side
from llmgw_reconcile.workflow.waiting import Failure, Watch


class _Member:
    """One engine of a step, on its way."""

    def __init__(self, action: Action, intent: Intent, previous: Intent | None) -> None:
        self.action, self.engine, self.intent = action, action.engine, intent
        self.previous = previous  # what it ran as until now; None for a start, and when its record is lost
        self.watch: Watch | None = None  # of its new run
        self.failure: Failure | None = None
        self.is_over = False  # its outcome is known

    @property
    def was_replaced_in_vain(self) -> bool:
        """Whether it ran before, was stopped, and nothing took its place."""
        if self.is_over or self.failure is None or self.failure.lives:
            return False
        return self.action.kind is ActionKind.REPLACE

    def is_in_the_way_of(self, other: _Member) -> bool:
        """Whether its new run has a GPU or the port that the other one ran on until now."""
        if self is other or self.watch is None or self.failure is not None or other.previous is None:
            return False
        new, old = self.intent.launch, other.previous.launch
        return overlap(new["gpus"], new["port"], old.get("gpus", ()), old.get("port"))


class StepWork:
    """One step under way; `run()` is its work."""

    def __init__(self, site: Site, step: Step) -> None:
        self._site, self._step = site, step
        self.is_acting = True  # until all that it starts was started
        self.halts = ""  # why no further replacement may begin; empty while all is well
        self._members: list[_Member] = []

    @property
    def rolls(self) -> bool:
        """Whether it takes a running engine down."""
        return self._step.rolls

    def run(self) -> Work:
        """Stop, start, wait; roll back where a replacement does not get ready."""
        for action in self._step.actions:
            self._site.ledger.begin(action)
        try:
            yield from self._carry_out()
        except LlmgwError as error:  # records that cannot be believed: nothing more is done in this step
            self.halts = str(error)
            for action in self._step.actions:
                if self._site.ledger.outcome(action.engine) is None:
                    self._site.ledger.finish(action, ok=False, summary=str(error))

    def _carry_out(self) -> Work:
        self._members = [self._member(action) for action in self._step.actions]
        yield from self._take_places()
        self.is_acting = False
        yield from self._wait()
        while lost := [member for member in self._members if member.was_replaced_in_vain]:
            yield from self._bring_back(lost)
            yield from self._wait()

    def _member(self, action: Action) -> _Member:
        want, operations = self._site.wanted[action.engine], self._site.operations
        assert want.launch is not None, "what is to be started has a launch"
        digests = {field: digest for field, digest in want.secret_digests.items() if digest}
        launch = launch_document(want.launch)
        intent = Intent(action.engine, want.spec.document, want.spec.bookkeeping, digests, launch)
        previous = recorded_intent(operations.records(action.engine)) if action.kind is ActionKind.REPLACE else None
        return _Member(action, intent, previous)

    # -- there

    def _take_places(self) -> Work:
        """All stops, then all starts. Where one engine does not stop, nothing is started in the place of any."""
        in_place = [member for member in self._members if self._needs_room(member.action)]
        stuck = yield from self._stop(in_place, self._site.stopping)
        why = f"{', '.join(stuck)} did not stop"
        for member in self._members:
            if not stuck:
                self._start(member)
            elif member.engine in stuck:
                self._finish(member, ok=False, summary=stuck[member.engine])
            elif member.action.kind is ActionKind.REPLACE:
                member.failure = Failure(f"not replaced: {why}")
            else:
                self._finish(member, ok=False, summary=f"not started: {why}")

    def _needs_room(self, action: Action) -> bool:
        """Whether something of the engine itself is there and must end first: its old run, or what is left of it."""
        seen = self._site.running.get(action.engine)
        there = seen is not None and (seen.live or seen.supervisor or seen.leftovers)
        return action.kind is ActionKind.REPLACE or bool(there)

    def _stop(self, members: Iterable[_Member], begin: Callable[[Action], Stopping]) -> Waiting[dict[str, str]]:
        """Stop them side by side; the reasons of those that are not proven stopped."""
        stops = {member.engine: begin(member.action) for member in members}
        while not all(stopping.is_over for stopping in stops.values()):
            yield
        stuck = {}
        for engine, stopping in stops.items():
            try:
                stopping.prove()
            except LlmgwError as error:
                stuck[engine] = str(error)
        return stuck

    def _start(self, member: _Member) -> None:
        try:
            self._site.operations.start(member.intent)
        except LlmgwError as error:
            member.failure = Failure(str(error))
        else:
            member.watch = self._site.watch(member.engine)

    # -- and waiting

    def _wait(self) -> Work:
        """Until each is ready or has ended, or nobody waits any more; no longer once one was replaced in vain."""
        while True:
            for member in self._members:
                self._look(member)
            if any(m.was_replaced_in_vain for m in self._members) or all(m.is_over for m in self._members):
                return
            yield

    def _look(self, member: _Member) -> None:
        if member.is_over:
            return
        if member.failure is None and member.watch is not None:
            phase = self._phase(member.watch)
            if phase is Phase.READY:
                self._finish(member, ok=True, summary="ready")
            elif phase.has_ended:
                member.failure = member.watch.failure()
            elif enough := self._site.enough():
                self._finish(member, ok=enough.ok, summary=f"not ready yet: {enough.reason}; its supervisor goes on")
        if member.failure is not None and not member.was_replaced_in_vain:
            self._finish(member, ok=False, summary=member.failure.summary)

    def _phase(self, watch: Watch) -> Phase:
        sighting = watch.look()
        self._site.ledger.reporter.waiting(sighting)
        return sighting.phase

    # -- and back

    def _bring_back(self, lost: list[_Member]) -> Work:
        """Start the previous launches once more. Who has taken a place that one of them needs gives it back."""
        back = list(lost)
        for member in back:  # grows while it is walked
            back += [m for m in self._members if m not in back and m.is_in_the_way_of(member)]
        for member in back:
            member.failure = member.failure or Failure(f"gives its place back: {lost[0].engine} did not get ready")
            self._site.ledger.reporter.comes_back(member.engine, member.failure.summary)
        stuck = yield from self._stop(back, self._site.clearing)
        yield from side_by_side(self._return(member, stuck.get(member.engine, "")) for member in back)

    def _return(self, member: _Member, stuck: str) -> Work:
        if stuck:
            ending = f"its place could not be cleared: {stuck}"
        elif member.previous is not None:
            ending = yield from self._run_again(member.previous)
        elif member.action.kind is ActionKind.REPLACE:
            ending = "its previous launch is not known"
        else:
            ending = "stopped again"
        assert member.failure is not None
        self._finish(member, ok=False, summary=f"{member.failure.summary}; {ending}")

    def _run_again(self, previous: Intent) -> Waiting[str]:
        """Once, and no more; the words for how that ends."""
        try:
            self._site.operations.start(previous)
        except LlmgwError as error:
            return f"its previous launch could not be started: {error}"
        watch = self._site.watch(previous.engine)
        while True:
            phase = self._phase(watch)
            if phase is Phase.READY:
                return "rolled back to its previous launch, which is ready"
            if phase.has_ended:
                return f"its previous launch does not get ready either: {watch.failure().summary}"
            if enough := self._site.enough():
                return f"rolled back to its previous launch, which is not ready yet: {enough.reason}"
            yield

    def _finish(self, member: _Member, *, ok: bool, summary: str) -> None:
        member.is_over = True
        if not ok and member.action.kind is ActionKind.REPLACE:
            self.halts = self.halts or f"{member.engine} did not get ready"
        self._site.ledger.finish(member.action, ok=ok, summary=summary, failure=member.failure)
