"""A small experiment on a small profile, for tests that need no real one."""

from collections.abc import Sequence
from typing import Any

from orchestrator.model.engine import EngineFiles
from orchestrator.model.experiment import Document, Experiment, Task
from orchestrator.model.plan import Plan, Selection
from orchestrator.model.profile import ProcessProfile
from orchestrator.planning.plans import make_plan

ENGINE = EngineFiles(
    python="/engine/python",
    model_dir="/engine/model",
    tokenizer_file="/engine/tokenizer.json",
    environment={"FROM_ENGINE": "1"},
    identity="engine-1",
)


def encode(text: str) -> Sequence[int]:
    """One id a character."""
    return [ord(character) for character in text]


def document(name: str, number: int, b_question: str = "Beta?") -> Document:
    """Two hundred characters that begin differently for each number."""
    text = "".join(chr(97 + (number + i * (number + 3)) % 26) for i in range(200))
    return Document(
        name=name,
        title=name,
        language="en",
        kind="letter",
        text=text,
        a=Task(question="Alpha?", response_schema="{}"),
        b=Task(question=b_question, response_schema="{}"),
    )


def experiment(**changes: Any) -> Experiment:  # noqa: ANN401 - any field
    """Three arms over two documents."""
    values: dict[str, Any] = {
        "name": "small",
        "question": "Does it differ?",
        "documents": ["one", "two"],
        "warm_up_document": "warm",
        "repeats": 4,
        "reference_repeats": 2,
        "max_tokens": 3,
        "top_logprobs": 4,
        "sizes": {"shared": "20", "b": "40", "a": ["31", "48"]},
        "arms": [
            {"name": "clean", "cell": "reference"},
            {"name": "contaminated", "cell": "contaminated"},
            {"name": "caching-off", "cell": "contaminated", "prefix_caching": "off"},
        ],
        "expectations": {
            "listed": {
                "clean": "stable", "contaminated": "mostly-diverged", "caching-off": "stable",
            }
        },
    }  # fmt: skip
    return Experiment.model_validate(values | changes, strict=False)


def profile(**changes: Any) -> ProcessProfile:  # noqa: ANN401 - any field
    """A profile whose release no prediction rule covers, unless `vllm_version` says otherwise."""
    values: dict[str, Any] = {
        "name": "listed",
        "description": "for tests",
        "kind": "process",
        "interpreter": {"kind": "prepared", "recipe": "none"},
        "vllm_version": "0.0.0",
        "served_model_name": "model",
        "block_size_tokens": 16,
        "speculative_tokens": 2,
        "max_num_batched_tokens": 1024,
        "args": ["serve", "--port", "{port}", "--model", "{model}"],
        "prefix_caching": {"on": ["--caching"], "off": ["--no-caching"]},
        "environment": {"FROM_PROFILE": "1"},
        "heartbeat_timeout_s": 4.0,
        "request_timeout_s": 5.0,
        "expected_start_s": 1.0,
        "ready": {"total_timeout_s": 20.0, "no_progress_timeout_s": 10.0},
        "stop": {"grace_s": 2.0},
    }
    return ProcessProfile.model_validate(values | changes, strict=False)


def plan(
    asked: Experiment | None = None,
    launched: ProcessProfile | None = None,
    *,
    selection: Selection = "plain",
    arms: Sequence[str] = (),
    b_question: str = "Beta?",
) -> Plan:
    """The plan of the two."""
    asked = asked or experiment()
    names = [*asked.documents, asked.warm_up_document]
    return make_plan(
        asked,
        launched or profile(),
        {name: document(name, number, b_question) for number, name in enumerate(names)},
        ENGINE,
        encode=encode,
        selection=selection,
        arms=arms,
    )
