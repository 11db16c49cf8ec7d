"""What a client remembers of its neighbors, to guess who stands before it."""

from __future__ import annotations

from fencelock.engines.zookeeper import paths
from fencelock.engines.zookeeper.neighbors import DOUBT_MAX, FOLDERS_MAX, Neighbors


def named(number: int, letter: str = "c") -> str:
    return f"{letter * 32}__lock__{number:010d}"


def coming_back(child: str, number: int) -> tuple[str, bool]:
    """The guess that it is this one who has come back, under that number."""
    return f"{paths.following(child)}{number:010d}", True


def test_where_guesses_are_wrong_they_become_rare() -> None:
    neighbors = Neighbors()
    wrong = 0
    for number in range(10, 2010, 10):
        neighbors.note("/seat", named(number), [named(number), named(number + 1)], named(1, "d"))
        before, guess = neighbors.before("/seat", named(number + 4))
        assert guess == (before is not None)
        if guess:
            wrong += 1
            neighbors.judge("/seat", right=False)
    assert 1 < wrong < 200 // DOUBT_MAX + 10
    neighbors.judge("/seat", right=True)
    neighbors.note("/seat", named(1), [named(1), named(2)], named(1, "d"))
    assert neighbors.before("/seat", named(5)) == coming_back(named(1, "d"), 4)


def ring() -> Neighbors:
    """Of a ring of six we have seen 1 to 5 in line, and are 6."""
    neighbors = Neighbors()
    neighbors.note("/seat", named(6), [named(number) for number in range(1, 7)], None)
    neighbors.note("/seat", named(0), [named(0), *map(named, range(1, 6))], None)
    return neighbors


def next_of(number: int, new: int) -> str:
    return f"{paths.following(named(number))}{new:010d}"


def test_who_was_away_comes_back_in_the_order_of_the_turns() -> None:
    """1 to 3 are back already when we get the lock; 4 and 5 are not."""
    back = [next_of(number, 6 + number) for number in (1, 2, 3)]
    nobody = (None, False)
    cases = {
        10: (back[-1], False),  # nobody has come since: for certain it is the last we saw
        11: nobody,  # one of the two, and who can tell
        12: coming_back(named(5), 11),
        13: coming_back(back[0], 12),  # who had its turn after us has overtaken us
        14: nobody,
    }
    for number, expected in cases.items():
        neighbors = ring()
        neighbors.note("/seat", named(6), [named(6), *back], named(5))
        assert neighbors.before("/seat", named(number)) == expected, number


def test_where_many_are_away_nobody_is_guessed() -> None:
    back = [next_of(number, 6 + number) for number in (1, 2)]
    for number in range(10, 14):
        neighbors = ring()
        neighbors.note("/seat", named(6), [named(6), *back], named(5))
        assert neighbors.before("/seat", named(number)) == (None, False)


def test_who_stood_before_us_unseen_is_known_as_well() -> None:
    """Its name was guessed, and the guess was right."""
    neighbors = Neighbors()
    neighbors.note("/seat", named(1), [named(1), named(2)], None)
    left = next_of(9, 3)
    neighbors.note("/seat", named(4), [named(4), next_of(2, 5)], left)
    assert neighbors.before("/seat", named(7)) == coming_back(left, 6)


def test_who_does_not_come_back_is_forgotten() -> None:
    neighbors = Neighbors()
    neighbors.note("/seat", named(1), [named(1), named(2), named(3)], None)
    for turn in range(2):
        first = 4 + 3 * turn
        neighbors.note("/seat", named(first), [named(first), named(first + 1)], None)
    assert neighbors._pasts["/seat"].away() == [named(5)]


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
