"""What a tool has left on disk, read from the files themselves."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.model.record import Record
from tests.peer.jobs import OURS, Job
from tests.peer.work import ENGINE_VERSION

_VERSION = f'"{ENGINE_VERSION}"'.encode()
"""As JSON has it; the folder of this engine has the version in its name."""


class Kept(Record):
    """Of one job."""

    files: int
    size_bytes: int

    answers: int
    """To measured requests, with at least their text."""

    counted_failed: int | None
    """Requests that it counts as failed in what it kept; `None`: it counts none."""

    logprobs: bool
    """Whether an answer is there with the candidates of its tokens."""

    server_log_bytes: int

    states_version: bool
    """Whether any file but a server's log names the engine's version."""

    verdict: bool
    """Whether any file says what the answers amount to."""


def kept_by(job: Job) -> Kept:
    """Look through its folder, which may be absent."""
    paths = [path for path in job.kept.rglob("*") if path.is_file() and not path.is_symlink()]
    logs = [path for path in paths if path.name == "server.log"]
    contents = [path.read_bytes() for path in paths if path not in logs]
    answers = _our_answers(job.kept) if job.tool == OURS else _peer_answers(job.kept)
    return Kept(
        files=len(paths),
        size_bytes=sum(path.stat().st_size for path in paths),
        answers=len(answers),
        counted_failed=sum(failed) if (failed := _peer_failures(job.kept)) else None,
        logprobs=any(b'"token_logprobs"' in content for content in contents),
        server_log_bytes=sum(path.stat().st_size for path in logs),
        states_version=any(_VERSION in content for content in contents),
        verdict=any(path.name == "verdicts.json" for path in paths),
    )


def _our_answers(folder: Path) -> list[str]:
    """Answers to A and B; the readiness probe is no measured request, and an error no answer."""
    texts = [
        path.read_text("utf-8")
        for path in folder.rglob("exchanges/*.response.json")
        if path.name.split("-", 1)[1].startswith(("a.", "b"))
    ]
    return [text for text in texts if '"choices"' in text]


def _peer_answers(folder: Path) -> list[str]:
    """The texts of the answers, which is what `--save-detailed` keeps of them."""
    return [
        text
        for result in _peer_results(folder)
        for text, error in zip(result["generated_texts"], result["errors"], strict=True)
        if not error
    ]


def _peer_failures(folder: Path) -> list[int]:
    return [result["failed"] for result in _peer_results(folder)]


def _peer_results(folder: Path) -> list[dict[str, Any]]:
    results = []
    for path in folder.rglob("run=*.json"):
        with suppress(json.JSONDecodeError):  # half a file: it is written in place, and twice
            results.append(json.loads(path.read_text("utf-8")))
    return results
