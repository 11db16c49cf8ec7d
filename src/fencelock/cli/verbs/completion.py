"""``fencelock completion bash|zsh|fish``: a completion script, made from the parsers themselves."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from .. import codes, terminal
from ..main import VERBS, Parser, parser_of

EPILOG = """\
  bash   source <(fencelock completion bash)
  zsh    source <(fencelock completion zsh)
  fish   fencelock completion fish | source
"""

NAMING = (
    "run",
    "elect",
    "leader",
    "show",
    "acquire",
    "hold",
    "revoke",
    "ls",
    "watch",
)  # their argument is a name


class Option(NamedTuple):
    """One option of a verb, as completion needs it."""

    names: list[str]
    help: str
    takes_value: bool


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=sorted(_SCRIPTS), help="bash, zsh, fish")


def main(options: argparse.Namespace) -> int:
    """Print the script."""
    script = _SCRIPTS[options.shell]()
    if options.json:
        terminal.emit({"shell": options.shell, "script": script})
    else:
        terminal.lines(script.splitlines())
    return codes.OK


def options_of(verb: str) -> list[Option]:
    """Return the options of a verb, from its parser."""
    parser: Parser = parser_of(verb)[0]
    return [
        Option(list(action.option_strings), action.help or "", action.nargs != 0)
        for action in parser.options()
    ]


def _bash() -> str:
    cases = "\n".join(
        f'        {verb}) options="{" ".join(n for o in options_of(verb) for n in o.names)}" ;;'
        for verb in VERBS
    )
    return f"""\
_fencelock() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}}" options="" word
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(VERBS)} --help --version" -- "$current"))
        return
    fi
    for ((word = 2; word < COMP_CWORD; word++)); do
        if [ "${{COMP_WORDS[word]}}" = -- ]; then
            COMPREPLY=($(compgen -c -f -- "$current"))
            return
        fi
    done
    case "$verb" in
{cases}
    esac
    case "$current" in
        -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
        *)
            case "$verb" in
                {"|".join(NAMING)})
                    local IFS=$'\\n'
                    COMPREPLY=($(compgen -W "$(fencelock ls -q 2>/dev/null)" -- "$current")) ;;
                completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$current")) ;;
            esac ;;
    esac
}}
complete -F _fencelock fencelock
"""


def _zsh() -> str:
    return f"""\
#compdef fencelock
autoload -U +X bashcompinit && bashcompinit
{_bash()}"""


def _fish() -> str:
    lines = ["complete -c fencelock -f"]
    for verb, summary in VERBS.items():
        lines.append(
            f"complete -c fencelock -n __fish_use_subcommand -a {verb} -d {_quoted(summary)}"
        )
        seen = f"'__fish_seen_subcommand_from {verb}'"
        lines += [f"complete -c fencelock -n {seen} {_fish_option(o)}" for o in options_of(verb)]
    names = " ".join(NAMING)
    lines.append(
        f"complete -c fencelock -n '__fish_seen_subcommand_from {names}' "
        "-a '(fencelock ls -q 2>/dev/null)'"
    )
    shells = "'__fish_seen_subcommand_from completion'"
    lines.append(f"complete -c fencelock -n {shells} -a 'bash zsh fish'")
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    names = [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
    value = ["-r"] if option.takes_value else []
    return " ".join([*names, *value, "-d", _quoted(option.help)])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
