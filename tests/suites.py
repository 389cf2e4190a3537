"""A small suite on the small profile, and its runs made by construction."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from orchestrator.model.profile import LaunchProfile
from orchestrator.model.suite import SuiteExperiment, SuiteItem
from orchestrator.planning.suites import make_suite_plan
from tests.answers import PLAIN
from tests.definitions import ENGINE, document, encode, profile
from tests.scenarios import Lists, Reply, Scenario

DOCUMENTS = {name: document(name, number) for number, name in enumerate(("one", "two", "warm"))}


def item(name: str, number: int) -> SuiteItem:
    """Asks for six characters of its document."""
    start = 10 * number
    written = DOCUMENTS[name].text[start : start + 6]
    return SuiteItem(
        id=f"{name}.{number}",
        document=name,
        question=f"Which six letters follow {start}?",
        response_schema={"properties": {"letters": {"type": "string"}}},
        fields={"letters": {"kind": "text", "written": written, "value": written}},  # type: ignore[dict-item]  # as from JSON
    )


ITEMS = tuple(item(name, number) for name in ("one", "two") for number in (1, 2))


def suite(**changes: Any) -> SuiteExperiment:  # noqa: ANN401 - any field
    """Four arms over four items of two documents."""
    values: dict[str, Any] = {
        "name": "small-suite",
        "question": "Does it stay the same?",
        "items": "small",
        "warm_up_document": "warm",
        "runs": 3,
        "limits": {"max_tokens": 3},
        "top_logprobs": 4,
        "arms": [
            {"name": "untouched", "order": "interleaved", "documents": "untouched"},
            {"name": "shared", "order": "grouped", "documents": "shared"},
            {"name": "shuffled", "order": "shuffled", "documents": "shared"},
            {"name": "off", "order": "interleaved", "documents": "shared", "prefix_caching": "off"},
        ],
    }
    return SuiteExperiment.model_validate(values | changes, strict=False)


def suite_plan(
    asked: SuiteExperiment | None = None,
    launched: LaunchProfile | None = None,
    items: tuple[SuiteItem, ...] = ITEMS,
    **options: Any,  # noqa: ANN401 - of `make_suite_plan`
) -> Plan:
    """The plan of the two."""
    return make_suite_plan(
        asked or suite(), items, launched or profile(), DOCUMENTS, ENGINE,
        encode=encode, **({"selection": "plain"} | options),
    )  # fmt: skip


Text = Callable[[str, int], str]
"""Item and run to the text that is answered."""


def right_text(name: str, run: int) -> str:
    """What the document says, in every run."""
    assert run
    asked = next(entry for entry in ITEMS if entry.id == name)
    return json.dumps({"letters": asked.fields["letters"].value})


def caching(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    """A server without the effect: cold under a fresh salt, then from the cache."""
    warm = arm.prefix_caching == "on" and cell.place == "measured" and (probe.repeat or 0) > 1
    return Reply(lists=of_item(cell.document), cached=16 if warm else 0)


def of_item(name: str, lists: Lists = PLAIN) -> Lists:
    """Another item gives other numbers."""
    shift = 0.25 * [entry.id for entry in ITEMS].index(name)
    return [[(token, value - shift) for token, value in entries] for entries in lists]


@dataclass
class SuiteScenario(Scenario):
    """A run of the suite; the texts are the test's too."""

    script: Callable[[ArmPlan, CellPlan, ProbePlan], Reply] = caching
    plan: Plan = field(default_factory=suite_plan)
    text: Text = right_text

    def body_of(self, probe: ProbePlan, reply: Reply) -> bytes:
        """A chat's answer, with the prompt's ids."""
        plain = json.loads(super().body_of(probe, reply))
        (choice,) = plain["choices"]
        lists = choice["logprobs"]
        entries = [
            {
                "token": token,
                "logprob": value,
                "top_logprobs": [{"token": t, "logprob": v} for t, v in top.items()],
            }
            for token, value, top in zip(
                lists["tokens"], lists["token_logprobs"], lists["top_logprobs"], strict=True
            )
        ]
        text = "" if probe.prompt == "ready" else self.text(probe.prompt, probe.repeat or 0)
        choice |= {"message": {"content": text}, "logprobs": {"content": entries}}
        return json.dumps(plain | {"prompt_token_ids": [1, len(probe.prompt)]}).encode()
