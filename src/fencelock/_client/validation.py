"""Check the arguments of callers: each check returns the value, or raises UsageError.

All checks are made before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UsageError
from ..model import Safety, Scalar
from ..observe import GROUP_MAX

NAME_BYTES_MAX = 512
TTL_MIN_S = 0.05
TTL_MAX_S = 7 * 86_400.0
META_BYTES_MAX = 4_096
LIMIT_MAX = 100_000  # slots of a semaphore
KEY_MIN, KEY_MAX = -(2**63), 2**63 - 1


def check_name(name: object) -> str:
    """Return the name, or say what is wrong with it."""
    if not isinstance(name, str):
        raise UsageError(f"a lock name must be a str, not {type(name).__name__}")
    if name.isascii() and name.isprintable() and 0 < len(name) <= NAME_BYTES_MAX:
        return name  # the hot path: plain text needs no encoding
    if not name:
        raise UsageError("a lock name must not be empty")
    for index, char in enumerate(name):
        if char < " " or "\x7f" <= char <= "\x9f":
            raise UsageError(
                f"a lock name must not contain control characters: U+{ord(char):04X} "
                f"stands at position {index} of {name[:80]!r}"
            )
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            f"a lock name must be valid Unicode: a lone surrogate stands at position {error.start}"
        ) from None
    if size > NAME_BYTES_MAX:
        raise UsageError(
            f"a lock name may have at most {NAME_BYTES_MAX} bytes of UTF-8, this one has {size}: "
            "lock a hash of it instead"
        )
    return name


def check_prefix(prefix: object) -> str:
    """Return the prefix of a name, which may be empty."""
    return check_name(prefix) if prefix != "" else ""


def check_reason(reason: object) -> str:
    """Return the reason of an administrator, or say what is wrong with it."""
    if not isinstance(reason, str) or not reason.strip() or len(reason) > NAME_BYTES_MAX:
        raise UsageError(
            f"a reason is a text of 1 to {NAME_BYTES_MAX} characters that the holder will read, "
            f"not {reason!r:.80}"
        )
    try:
        reason.encode()
    except UnicodeEncodeError:
        raise UsageError("a reason must be valid Unicode: it has a lone surrogate") from None
    return reason


def check_ttl(ttl: object, what: str = "ttl") -> float:
    """Return the length of a lease in seconds, or say what is wrong with it."""
    seconds = _seconds(ttl, what)
    if not TTL_MIN_S <= seconds <= TTL_MAX_S:
        raise UsageError(
            f"{what} must be between {TTL_MIN_S:g} and {TTL_MAX_S:g} seconds, not {ttl!r}: "
            "a lease is short and renewed for as long as the work lasts"
        )
    return seconds


def check_timeout(timeout: object) -> float | None:
    """Return the longest wait in seconds, None for no limit, or say what is wrong with it."""
    if timeout is None:
        return None
    seconds = _seconds(timeout, "timeout")
    if not seconds >= 0:
        raise UsageError(
            f"timeout must be 0 or more seconds, not {timeout!r}: "
            "0 tries once, None waits without limit"
        )
    return None if seconds == float("inf") else seconds


def check_max_hold(max_hold: object) -> float | None:
    """Return the longest hold in seconds, None for no limit, or say what is wrong with it."""
    if max_hold is None:
        return None
    seconds = _seconds(max_hold, "max_hold")
    if not TTL_MIN_S <= seconds < float("inf"):
        raise UsageError(
            f"max_hold must be at least {TTL_MIN_S:g} seconds and finite, not {max_hold!r}: "
            "None sets no limit"
        )
    return seconds


def check_linger(seconds: object, what: str) -> float:
    """Return for how many seconds a lock that has ended is kept from others, 0 for None."""
    if seconds is None:
        return 0.0
    value = _seconds(seconds, what)
    if not 0 <= value <= TTL_MAX_S:
        raise UsageError(f"{what} must be between 0 and {TTL_MAX_S:g} seconds, not {seconds!r}")
    return value


def check_lingering(min_hold: float, max_hold: object) -> None:
    """Refuse a min_hold that is longer than max_hold."""
    if isinstance(max_hold, int | float) and min_hold > max_hold:
        raise UsageError(f"min_hold={min_hold:g} is more than max_hold={max_hold:g}")


def check_flag(value: object, what: str) -> bool:
    """Return a switch, or say what is wrong with it: ``renew="no"`` is not a switch."""
    if not isinstance(value, bool):
        raise UsageError(f"{what} must be True or False, not {value!r}")
    return value


def check_meta(meta: object) -> dict[str, Scalar]:
    """Return the caller's own words about a hold, or say what is wrong with them."""
    if meta is None:
        return {}
    if not isinstance(meta, Mapping):
        raise UsageError(f"meta must be a mapping of words to values, not {type(meta).__name__}")
    words: dict[str, Scalar] = {}
    for key, value in meta.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(key, str):
            raise UsageError(f"a key of meta must be a str, not {key!r}")
        if value is not None and not isinstance(value, str | int | float | bool):
            raise UsageError(
                f"meta[{key!r}] must be a str, a number, a bool or None, not {value!r}"
            )
        if value != value or value in (float("inf"), float("-inf")):
            raise UsageError(f"meta[{key!r}] must be finite, not {value!r}")
        words[key] = value
    if words:
        import json  # only where there is any meta

        try:
            size = len(json.dumps(words))  # in ASCII: characters are bytes
        except ValueError as error:  # an integer of thousands of digits
            raise UsageError(
                f"meta cannot be written as JSON ({error}): keep the details elsewhere and store a "
                "key"
            ) from None
        if size > META_BYTES_MAX:
            raise UsageError(
                f"meta may have at most {META_BYTES_MAX} bytes as JSON, this has {size}: "
                "keep the details elsewhere and store a key"
            )
    return words


def check_safety(safety: object) -> Safety | None:
    """Return the demanded level of safety, or say which levels there are."""
    if safety is None:
        return None
    if safety == "efficiency":
        return "efficiency"
    if safety == "correctness":
        return "correctness"
    raise UsageError(f'safety must be "efficiency" or "correctness", not {safety!r}')


def check_group(group: object) -> str:
    """Return the group of a name, or say what is wrong with it."""
    if not isinstance(group, str) or not 0 < len(group) <= GROUP_MAX or not group.isprintable():
        raise UsageError(
            f"a group is a text of 1 to {GROUP_MAX} printable characters that many names have in "
            f"common, not {group!r:.80}"
        )
    return group


def check_key(key: object) -> int:
    """Return the store's own number for a lock, or say what is wrong with it."""
    if isinstance(key, bool) or not isinstance(key, int) or not KEY_MIN <= key <= KEY_MAX:
        raise UsageError(f"a key is an integer of 64 bits, not {key!r:.80}")
    return key


def check_limit(limit: object) -> int:
    """Return how many may hold a semaphore, or say what is wrong with it."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= LIMIT_MAX:
        raise UsageError(f"limit must be an integer from 1 to {LIMIT_MAX}, not {limit!r:.80}")
    return limit


def check_seconds(value: object, what: str, least: float, most: float) -> float:
    """Return a number of seconds within bounds, or say what is wrong with it."""
    number = _number(value, what, what)
    if not least <= number <= most:
        raise UsageError(
            f"{what} must be between {least:.9g} and {most:.9g} seconds, not {value!r}"
        )
    return float(number)


def _seconds(value: object, what: str) -> float:
    number = _number(value, what, "value")
    if number != number:
        raise UsageError(f"{what} must be a number of seconds, not NaN")
    try:
        return float(number)
    except OverflowError:
        raise UsageError(f"{what} is too large for a number of seconds") from None


def _number(value: object, what: str, variable: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = f": pass {variable}.total_seconds()" if hasattr(value, "total_seconds") else ""
        raise UsageError(f"{what} must be a number of seconds, not {value!r}{hint}")
    return value
