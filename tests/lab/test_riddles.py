"""Riddles: the judge supports what is said about each mistake, and the mistake is the cause."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fencelock import lab
from fencelock.errors import UsageError

RIDDLES = [name for name in lab.scenarios() if "quiz" in lab.scenario(name)]
POSED = [
    pytest.param(name, choice, id=f"{name}, {choice}")
    for name in RIDDLES
    for choice in lab.scenario(name)["switches"][lab.scenario(name)["quiz"]["switch"]]
]
SOUND: dict[str, Any] = {"client": "fencelock"}


def posed(name: str, choice: str) -> dict[str, Any]:
    return lab.load(name, **{lab.scenario(name)["quiz"]["switch"]: choice})


def test_there_is_a_riddle_with_an_answer_for_each_choice_and_no_other() -> None:
    assert RIDDLES == ["find-the-bug"]
    for name in RIDDLES:
        raw = lab.scenario(name)
        choices = list(raw["switches"][raw["quiz"]["switch"]])
        assert sorted(raw["quiz"]["answers"]) == sorted(choices)
        assert list(raw["quiz"]["answers"]) != choices, "the number would tell the answer"


@pytest.mark.parametrize(("name", "choice"), POSED)
def test_a_mistake_shows_and_nothing_is_wrong_without_it(name: str, choice: str) -> None:
    document = posed(name, choice)
    outcome = lab.play(document).outcome
    actors = {one: SOUND | {"script": facts["script"]} for one, facts in document["actors"].items()}
    resource = {**document["resource"], "guard": True}
    sound = lab.play({**document, "actors": actors, "resource": resource, "expect": {}}).outcome
    assert sound["broken"] == []
    if choice == "none":
        assert sound == outcome
    elif choice == "guard above":
        assert (outcome["broken"], outcome["refused"], sound["refused"]) == ([], 1, 0)
    else:
        assert outcome["broken"]


@pytest.mark.parametrize(
    ("quiz", "why"),
    [
        ({"switch": "x", "answers": {}}, "quiz.switch: there is no 'x', but mistake"),
        ({"switch": "mistake"}, "quiz.answers: nothing is said about 'no guard'"),
        ({"switch": "mistake", "answers": {"del": {"say": "x"}}}, "because: a text"),
        ({"switch": "mistake", "reply": {}}, "'reply' is unknown"),
        ([], "quiz: an object"),
    ],
)
def test_a_riddle_that_cannot_be_posed_is_refused_in_words(quiz: object, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        lab.play(lab.scenario(RIDDLES[0]) | {"quiz": quiz})


def test_the_two_commands_of_a_release_and_of_an_acquire_are_seen_in_the_messages() -> None:
    for choice, words in (("set without nx", ("get", "set")), ("get then del", ("get", "del"))):
        said = [one["what"].lower() for one in lab.play(posed(RIDDLES[0], choice)).data["messages"]]
        for word in words:
            assert any(one.startswith(word) for one in said), (choice, said)
    local = lab.play(posed(RIDDLES[0], "local mutex")).data["messages"]
    assert not [one for one in local if "redis" in (one["from"], one["to"])]
