"""Who stands before a newcomer, told by its number: the look at the queue is spared then.

The server counts the children of a folder as they are made, so whoever has the number before ours
stands right before us. Only its name is missing. Two cases are common:

* Nobody has come since we looked last: it is the one that was last in line then.
* One or two have come since. Where the same clients want a lock all the time, they come back for
  their next turn in the order of their last: first who was away when we looked, mostly the one who
  had the lock before us, then who had it after us. Our clients name the next node after the last
  one, so whoever has seen that one knows how the next one begins.

A name is only ever asked for together with the number before ours. Where such a node exists it
*is* our predecessor, whatever has become of the folder meanwhile; where none does, we look as
always. And nobody is granted anything by this: who is told that its predecessor has gone looks
at the whole queue.
"""

from __future__ import annotations

from . import paths

FOLDERS_MAX = 1000
DOUBT_MAX = 32
AWAY_MAX = 2  # where more were away at once, nobody can tell who of them came last
LATELY = 8  # so many of a queue are compared: with a long one it would take its time
DIGITS = 10


class _Past:
    """What was last seen in one folder."""

    __slots__ = ("doubt", "earlier", "others", "pause", "tail")

    def __init__(self) -> None:
        self.tail: str | None = None
        """Who came last; None once that was used."""
        self.others: list[str] = []
        """All others that stood in line with us."""
        self.earlier: list[str] = []
        """All others that had stood there the time before, in the order of their turns."""
        self.doubt = 0
        self.pause = 0
        """How often not to guess: twice as often with every guess that is wrong."""

    def away(self) -> list[str]:
        """Who of the last of the earlier was not in line, under its old name or its next one."""
        lately = [child for child in self.earlier[-LATELY:] if child not in self.others]
        begun = {child[:-DIGITS] for child in self.others[-LATELY:]}
        return [child for child in lately if paths.following(child) not in begun]


class Neighbors:
    """What one client remembers of the queues that it stood in."""

    def __init__(self) -> None:
        self._pasts: dict[str, _Past] = {}
        self._own: dict[str, str] = {}  # the last node of ours, which the next is named after

    def note(self, folder: str, child: str, order: list[str], left: str | None) -> None:
        """Remember a queue; ``left`` is who stood before us until just now."""
        if not order or order[-1] == child:  # when we come again there will be nobody to wait for
            self._pasts.pop(folder, None)
            self._own.pop(folder, None)
            return
        past = self._pasts.get(folder)
        if past is None:
            if len(self._pasts) >= FOLDERS_MAX:
                self._pasts.clear()
                self._own.clear()
            past = self._pasts[folder] = _Past()
        if left is not None and left not in past.others:
            past.others.append(left)
        past.earlier, past.others = past.others, [other for other in order if other != child]
        past.tail = order[-1]

    def knows(self, folder: str) -> bool:
        """Whether there was somebody to wait for when we looked last; that counts once."""
        past = self._pasts.get(folder)
        return past is not None and past.tail is not None

    def before(self, folder: str, child: str) -> tuple[str | None, bool]:
        """Who stands before a newcomer, if we can tell; and whether that is a guess."""
        past = self._pasts.get(folder)
        if past is None:
            return None, False
        tail, past.tail = past.tail, None
        number, last = paths.sequence(child), paths.sequence(tail or "")
        if number is None or last is None or not 0 < number < paths.NUMBER_MAX:
            return None, False  # spent numbers are given more than once
        if number == last + 1:
            return tail, False
        came, away = number - last - 1, past.away()
        returning = [*away, *past.others[:1]]
        if len(away) > AWAY_MAX or not max(1, len(away)) <= came <= len(returning):
            return None, False  # of two who were away, either may come first
        if past.pause:
            past.pause -= 1
            return None, False
        return f"{paths.following(returning[came - 1])}{number - 1:010d}", True

    def judge(self, folder: str, right: bool) -> None:
        """Whether a guess was right: guess less where it was not."""
        past = self._pasts.get(folder)
        if past is not None:
            past.doubt = 0 if right else min(max(1, 2 * past.doubt), DOUBT_MAX)
            past.pause = max(0, past.doubt - 1)

    def leave(self, folder: str, child: str) -> None:
        """A node of ours has gone from a queue."""
        if folder in self._pasts:
            self._own[folder] = child

    def prefix(self, folder: str) -> str | None:
        """How our next node in a folder begins, once; None where nobody could know."""
        own = self._own.pop(folder, None)  # in one step: two threads must not get the same
        return None if own is None else paths.following(own)
