"""Whether engines find their cards at once, against trying every way to give them out."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.placement.feasible import Demand, all_fit, shares


def by_trying(demands: list[Demand], cards: list[int]) -> bool:
    """`cards` are the sorts of the cards that are left."""
    if not demands:
        return True
    first, *rest = demands
    for sorts in first.classes:
        fit = [place for place, sort in enumerate(cards) if sort in sorts]
        for taken in combinations(fit, first.need):
            if by_trying(rest, [sort for place, sort in enumerate(cards) if place not in taken]):
                return True
    return False


# sorts 0 and 1 are of one class, sorts 2 and 3 of another
CLASSES = st.lists(st.sampled_from([(0,), (1,), (0, 1), (2,), (3,), (2, 3)]), min_size=1, max_size=2, unique=True)
DEMANDS = st.lists(st.builds(Demand, st.integers(1, 3), CLASSES.map(tuple)), max_size=4)


@given(DEMANDS, st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_the_answer_is_that_of_trying_every_way(demands: list[Demand], stock: list[int]) -> None:
    cards = [sort for sort, amount in enumerate(stock) for _ in range(amount)]
    assert all_fit(demands, tuple(stock)) == by_trying(demands, cards)


@given(DEMANDS, st.randoms(use_true_random=False))
def test_the_order_of_the_demands_changes_nothing(demands: list[Demand], random: object) -> None:
    turned = list(demands)
    random.shuffle(turned)  # type: ignore[attr-defined]
    assert all_fit(demands, (2, 1, 2, 1)) == all_fit(turned, (2, 1, 2, 1))


def test_an_amount_that_the_limits_do_not_reach_is_made_up_in_no_way() -> None:
    assert list(shares(3, [1, 1])) == []
    assert list(shares(0, [])) == [()]


def test_every_way_to_make_up_an_amount_comes_once() -> None:
    assert list(shares(3, [2, 2, 1])) == [(2, 1, 0), (2, 0, 1), (1, 2, 0), (1, 1, 1), (0, 2, 1)]


def test_sixteen_cards_of_as_many_sorts_are_answered_for_in_bounded_time() -> None:
    everywhere = (tuple(range(16)),)
    assert all_fit([Demand(3, everywhere)] * 5, (1,) * 16)
    assert not all_fit([Demand(3, everywhere)] * 15, (1,) * 16)
    odd = [Demand(2, (tuple(range(15)),))] * 7 + [Demand(2, ((15,),))]
    assert not all_fit(odd, (1,) * 16)
