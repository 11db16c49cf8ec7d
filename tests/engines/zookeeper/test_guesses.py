"""What a client remembers of its neighbors, to guess who stands before it."""

from __future__ import annotations

from fencelock.engines.zookeeper import paths
from fencelock.engines.zookeeper.neighbors import DOUBT_MAX, FOLDERS_MAX, Neighbors


def named(number: int, letter: str = "c") -> str:
    return f"{letter * 32}__lock__{number:010d}"


def test_where_guesses_are_wrong_they_become_rare() -> None:
    neighbors = Neighbors()
    wrong = 0
    for number in range(10, 2010, 10):
        neighbors.note("/seat", named(number), [named(number), named(number + 1)], named(1, "d"))
        before, guess = neighbors.before("/seat", named(number + 3))
        assert guess == (before is not None)
        if guess:
            wrong += 1
            neighbors.judge("/seat", right=False)
    assert 1 < wrong < 200 // DOUBT_MAX + 10
    neighbors.judge("/seat", right=True)
    neighbors.note("/seat", named(1), [named(1), named(2)], named(1, "d"))
    assert neighbors.before("/seat", named(4)) == (
        f"{paths.following(named(1, 'd'))}{3:010d}",
        True,
    )


def test_spent_numbers_say_nothing() -> None:
    """H50: at the end the server gives the last number again and again."""
    last = paths.NUMBER_MAX
    for number, before in ((last, last - 1), (last, last), (-last, -last - 1), (0, -1)):
        neighbors = Neighbors()
        neighbors.note("/seat", named(1), [named(1), named(before)], None)
        assert neighbors.knows("/seat")
        assert neighbors.before("/seat", named(number, "e")) == (None, False)


def test_a_name_is_given_to_one_only_and_little_is_remembered() -> None:
    neighbors = Neighbors()
    for number in range(3 * FOLDERS_MAX):
        neighbors.note(f"/{number}", named(1), [named(1), named(2)], None)
        neighbors.leave(f"/{number}", named(1))
    assert len(neighbors._pasts) <= FOLDERS_MAX
    assert len(neighbors._own) <= FOLDERS_MAX
    place = f"/{3 * FOLDERS_MAX - 1}"
    assert neighbors.prefix(place) == paths.following(named(1))
    assert neighbors.prefix(place) is None
    neighbors.leave("/alone", named(1))  # nobody was there to wait for
    assert neighbors.prefix("/alone") is None
