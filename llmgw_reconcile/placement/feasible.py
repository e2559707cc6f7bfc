"""What engines need, and how many cards of each sort are free, to whether all of them find their cards at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_STEPS = 20_000  # then the answer is no; nodes of 16 cards that differ in class alone need a few hundred

Stock = tuple[int, ...]  # free cards of each sort; cards that the same engines may have are of one sort


class Demand(NamedTuple):
    """What one engine needs: so many cards, all of one class."""

    need: int
    classes: tuple[tuple[int, ...], ...]  # per class that will do: the sorts of its cards that the engine may have


def all_fit(demands: Sequence[Demand], stock: Stock, *, to_the_end: bool = False) -> bool:
    """Whether there are cards for all of them. Exact up to `MOST_STEPS`, and `to_the_end` beyond.

    >>> narrow, wide = Demand(1, ((0,),)), Demand(1, ((0,), (1,)))
    >>> all_fit([wide, narrow], (1, 1)), all_fit([narrow, narrow], (1, 1))
    (True, False)
    """
    if sum(demand.need for demand in demands) > sum(stock):
        return False
    ordered = tuple(sorted(demands, key=lambda demand: (_slack(demand, stock), -demand.need, demand.classes)))
    failed: set[tuple[int, Stock]] = set()
    steps = 0

    def fits(position: int, left: Stock) -> bool:
        nonlocal steps
        if position == len(ordered):
            return True
        steps += 1
        if (position, left) in failed or (steps > MOST_STEPS and not to_the_end):
            return False
        if any(fits(position + 1, after) for after in _after(ordered[position], left)):
            return True
        failed.add((position, left))
        return False

    return fits(0, stock)


def _slack(demand: Demand, stock: Stock) -> int:
    """How many cards more than it needs there are for it, were it alone: the hardest to please comes first."""
    return max((sum(stock[sort] for sort in sorts) for sorts in demand.classes), default=0) - demand.need


def _after(demand: Demand, stock: Stock) -> Iterator[Stock]:
    """What may be left when the demand is met."""
    for sorts in demand.classes:
        for taken in shares(demand.need, [stock[sort] for sort in sorts]):
            left = list(stock)
            for sort, amount in zip(sorts, taken, strict=True):
                left[sort] -= amount
            yield tuple(left)


def shares(need: int, limits: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every way to make up `need` of amounts within these limits, the most of the first one first.

    >>> list(shares(2, [1, 2]))
    [(1, 1), (0, 2)]
    """
    if not limits:
        if need == 0:
            yield ()
        return
    first, *rest = limits
    for amount in range(min(first, need), max(-1, need - sum(rest) - 1), -1):
        yield from ((amount, *others) for others in shares(need - amount, rest))
