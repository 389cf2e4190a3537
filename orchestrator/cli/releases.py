"""`predict --versions`: which scheduler rule each release follows, and which release changed it."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.engine_packages import package_at
from orchestrator.adapters.scheduler_source import ask_split, under_image, under_interpreter
from orchestrator.errors import DefinitionError
from orchestrator.model.prediction import SchedulerSettings, SplitSource
from orchestrator.prediction.panel import rules_giving, split_panel
from orchestrator.prediction.releases import default_retention, rule_of

PANEL_CASES = 5_000
"""Cases in which an engine's function is held against our rule: under a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release that was asked about."""

    given: str
    version: str
    settings: SchedulerSettings
    source: SplitSource | None
    """Its align-split function, where its source was given; `None`: only its name was."""

    @property
    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "given": self.given,
            "version": self.version,
            "rule": self.settings.rule,
            "every_boundary": self.settings.every_boundary,
            "retention_tokens": self.settings.retention_tokens,
            "function_sha256": None if self.source is None else self.source.function_sha256,
        }


def release_of(given: str, basis: SchedulerSettings, *, where: str) -> Release:
    """Resolve what `--versions` was given.

    Args:
        given: A release by name; the path of a wheel, a virtual environment or a package; or
            `image:` and an image's name.
        basis: Block, budget and drafts; rule and retention are the release's own.
        where: It was given, for messages.

    Raises:
        DefinitionError: No rule of ours was checked against that release, or its function is not
            what its version says.
        HostError: Its function cannot be located or run.
    """
    image = given.removeprefix("image:")
    if image == given and not Path(given).exists():
        return Release(
            given=given, version=given, settings=_settings(where, given, basis), source=None
        )
    cases = split_panel(PANEL_CASES, seed=0)
    if image == given:
        with package_at(Path(given)) as package:
            # The function alone is run, and its text needs no vLLM: our own interpreter will do.
            ours = under_interpreter(Path(sys.executable))
            source, scheduled = ask_split(ours, cases, package=package)
    else:
        with docker_engine() as client:
            source, scheduled = ask_split(under_image(client, image, "python3"), cases)
    version = source.version or "an unknown version"
    settings = _settings(where, version, basis)
    found = [r for r in rules_giving(cases, scheduled) if r.rule == settings.rule]
    if not found:
        raise DefinitionError(
            where,
            f"its align-split function (sha256 {source.function_sha256[:16]}) does not follow rule"
            f" {settings.rule}, which vLLM {version} was read to follow: it was changed",
        )
    patched = found[0].every_boundary
    values = settings.model_dump() | {"every_boundary": patched}
    return Release(
        given=given,
        version=version,
        settings=SchedulerSettings.model_validate(values),
        source=source,
    )


def _settings(where: str, version: str, basis: SchedulerSettings) -> SchedulerSettings:
    drafts = basis.speculative
    rule = rule_of(version, speculative=drafts)
    if rule is None:
        raise DefinitionError(
            where,
            f"no rule of ours was checked against the source of {version}"
            f"{' with drafts' if drafts else ''}",
        )
    values = {"rule": rule, "retention_tokens": default_retention(version, speculative=drafts)}
    return SchedulerSettings.model_validate(basis.model_dump() | values)


def compared(releases: Sequence[Release]) -> Iterator[str]:
    """A line a release, with its function's hash; then a line for each two that follow."""
    yield from (f"vLLM {release.version}: {_described(release)}" for release in releases)
    for previous, release in pairwise(releases):
        yield _change(previous, release)


def _described(release: Release) -> str:
    settings = release.settings
    rule = f"rule {settings.rule}{', patched: a stop at every boundary' * settings.every_boundary}"
    if release.source is None:
        return f"{rule}, by name; its source was not given"
    return (
        f"{rule}, as its align-split function in {release.given} says in {PANEL_CASES} cases"
        f" (sha256 {release.source.function_sha256[:16]})"
    )


def _change(previous: Release, release: Release) -> str:
    ours, theirs = previous.settings.model_dump(), release.settings.model_dump()
    changed = [f"{key} {ours[key]} → {theirs[key]}" for key in ours if ours[key] != theirs[key]]
    texts = {entry.source.function_sha256 for entry in (previous, release) if entry.source}
    unknown = previous.source is None or release.source is None
    text = (
        "" if unknown else "; the function's text is the same" if len(texts) == 1
        else "; the function's text differs"
    )  # fmt: skip
    rule = ", ".join(changed) or "no change of the rule"
    return f"{previous.version} → {release.version}: {rule}{text}"
