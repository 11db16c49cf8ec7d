"""Pick the verb, read its arguments, and turn errors into one line and an exit code.

A verb is a module with ``arguments(parser)`` and ``main(options) -> int``, and perhaps ``USAGE``
and ``EPILOG``. Only the module of the requested verb is imported: a cron wrapper starts thousands
of times a day.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from .. import __version__
from ..errors import FencelockError
from . import codes, terminal
from .codes import BadArguments, failure
from .options import engine_arguments
from .signals import Interrupted

VERBS: dict[str, str] = {
    "run": "run a command under a lock, and stop it before the lease can end",
    "elect": "run a command while leading; after a loss, campaign again",
    "leader": "show who leads",
    "ls": "list the locks that are held",
    "show": "show who holds a lock and who waits",
    "watch": "watch locks change",
    "acquire": "acquire a lock for a script",
    "renew": "renew a lock of a script",
    "release": "release a lock of a script",
    "hold": "hold a lock until stdin closes",
    "serve": "serve locks over HTTP, for programs in any language",
    "token": "make a token for somebody who may call a lock service",
    "revoke": "take a lock from its holder",
    "doctor": "see whether locking works here, and what would break a promise",
    "bench": "measure how fast locks are here",
    "torture": "break clients and connections, and see whether locks hold",
    "demo": "see a frozen holder being refused",
    "lab": "play a lock that goes wrong, in simulated time",
    "schema": "print the tables that an engine needs in a database",
    "completion": "print a completion script for a shell",
}

COMMANDED = ("run", "elect")  # they take a command after --
UNCONNECTED = ("token", "demo", "lab", "schema", "completion")  # they use no engine


class Help(argparse.HelpFormatter):
    """Help as wide as the terminal, up to a hundred columns; indented lines are not filled.

    The width is passed on: argparse would import a module to find it out, again at every argument.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(terminal.size(sys.stdout)[0], 100) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_filled(part, width) for part in text.strip("\n").split("\n\n"))


def _filled(paragraph: str, width: int) -> str:
    if "\n " in f"\n{paragraph}":
        return paragraph  # an example or a table
    from textwrap import fill

    return fill(" ".join(paragraph.split()), width)


class Parser(argparse.ArgumentParser):
    """A parser whose errors end with 125, as those of timeout(1) do, and not with 2."""

    hint = ""
    """The most likely mistake, which is added to every error message."""

    def parse_args(  # type: ignore[override]  # only ever called with a list
        self, words: list[str]
    ) -> argparse.Namespace:
        """Parse the words; the error for an unknown option suggests one that was meant."""
        options, rest = self.parse_known_args(words)
        if rest:
            known = [name for action in self.options() for name in action.option_strings]
            asked = rest[0].partition("=")[0]
            meant = ["--wait"] if asked == "--timeout" and "--wait" in known else []
            meant += _closest(asked, known, 0.7) if asked.startswith("--") else []
            advice = f": did you mean {meant[0]}?" if meant else ""
            self.error(f"unrecognized arguments: {' '.join(rest)}{advice}")
        return options

    def options(self) -> list[argparse.Action]:
        """Return the actions that are options, for completion."""
        return [action for action in self._actions if action.option_strings]

    def _print_message(self, message: str, file: object = None) -> None:
        """Print help or the version; that it cannot be written is an error, unlike in argparse."""
        terminal.lines([message.rstrip("\n")])

    def error(self, message: str) -> NoReturn:
        raise BadArguments(f"{message} ({self.hint}see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = words[: words.index("--")] if "--" in words else words
    terminal.prepare()
    json = "--json" in own and own[0] not in COMMANDED  # its stdout is the command's
    code = _guarded(words, verbose="-v" in own or "--verbose" in own, json=json)
    if code and own[:1] == ["acquire"] and "--shell" in own:
        with suppress(OSError, FencelockError):  # nobody reads
            terminal.out(f"(exit {code})")  # or eval would swallow the failure
    return _flushed(code)


def _guarded(words: list[str], verbose: bool, json: bool) -> int:
    try:
        return _dispatch(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else codes.OK
    except KeyboardInterrupt:
        return codes.SIGNALLED + 2
    except Interrupted as interrupted:
        return codes.SIGNALLED + interrupted.number
    except BrokenPipeError:
        return codes.SIGNALLED + 13
    except FencelockError as error:
        return _failed(error, str(error), codes.of(error), verbose, json)
    except Exception as error:
        hint = "" if verbose else " (-v shows the traceback)"
        message = f"{type(error).__name__}: {error}{hint}"
        return _failed(error, message, codes.FAILED, verbose, json)


def _failed(error: Exception, message: str, code: int, verbose: bool, json: bool) -> int:
    """Print an error for people, and for programs if they want it; return the exit code."""
    terminal.say(message)
    if verbose:
        terminal.traceback(error)
    if json:
        with suppress(OSError, FencelockError):  # that stdout cannot be written was said above
            terminal.emit(failure(error, code))
    return code


def _flushed(code: int) -> int:
    """Flush stdout, so that the interpreter finds nothing to complain about on its way out."""
    try:
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]  # it was closed
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return code or codes.SIGNALLED + 13
    return code


def _dispatch(words: list[str]) -> int:
    if words and words[0] in VERBS:
        parser, verb = parser_of(words[0])
        rest = words[1:]
        if words[0] in COMMANDED and "--" not in rest:
            parser.hint = "write the command after --; "
        options = parser.parse_args(rest[: rest.index("--")] if "--" in rest else rest)
        options.command = rest[rest.index("--") + 1 :] if "--" in rest else []
        if options.command and words[0] not in COMMANDED:
            parser.error(f"only {' and '.join(COMMANDED)} take a command after --")
        code: int = verb.main(options)
        return code
    top = Parser(
        prog="fencelock",
        description="One safe way for programs to take turns.",
        epilog=_overview(),
        formatter_class=Help,
    )
    top.add_argument("--version", action="version", version=f"fencelock {__version__}")
    top.add_argument("verb", nargs="?", metavar="VERB", help="what to do: one of the verbs below")
    options = top.parse_args(words[:1])
    if options.verb is not None:
        top.error(f"there is no verb {options.verb!r}{_meant(options.verb)}")
    top.print_help()
    return codes.OK


def _meant(word: str) -> str:
    close = _closest(word.lower(), VERBS, 0.5)
    return f": did you mean {close[0]}?" if close else f"; the verbs are {', '.join(VERBS)}"


def _closest(word: str, known: Iterable[str], likeness: float) -> list[str]:
    """Return the known word that is most alike, if it is alike enough."""
    from difflib import get_close_matches

    return get_close_matches(word, list(known), 1, likeness)


def parser_of(name: str) -> tuple[Parser, Any]:
    """Return the parser and the module of a verb."""
    verb = import_module(f"{__package__}.verbs.{name}")
    parser = Parser(
        prog=f"fencelock {name}",
        usage=getattr(verb, "USAGE", None),
        description=VERBS[name][0].upper() + VERBS[name][1:] + ".",
        epilog=getattr(verb, "EPILOG", None),
        formatter_class=Help,
        allow_abbrev=False,
    )
    verb.arguments(parser)
    add = parser.add_argument
    if name not in UNCONNECTED:
        engine_arguments(parser)
    add("--json", action="store_true", help="print JSON")
    add("-v", "--verbose", action="store_true", help="print more, and the tracebacks of errors")
    return parser, verb


def _overview() -> str:
    lines = [f"  {name:<11} {summary}" for name, summary in VERBS.items()]
    return (
        "verbs:\n" + "\n".join(lines) + "\n\nexit codes:\n" + codes.text() + "\n\n"
        "fencelock VERB --help tells more."
    )
