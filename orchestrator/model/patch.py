"""A patch of the engine's source, what it made of it, and what a server says that it loaded."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from orchestrator.model.profile import Name
from orchestrator.model.record import Record

PackageFile = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(/[\w-][\w.-]*)+$")]
"""A file as it is imported, from the package's name on: `vllm/v1/core/sched/scheduler.py`."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Edit(Record):
    """One text of one file, and what takes its place."""

    file: PackageFile

    anchor: str = Field(min_length=1)
    """Compared character by character, indentation included."""

    replacement: str

    count: int = Field(default=1, ge=1)
    """How often the anchor occurs; found more or less often, the patch does not apply."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.anchor == self.replacement:
            raise ValueError("replacement: is the anchor itself")
        return self


class Variant(Record):
    """The change as the text of some releases needs it."""

    releases: tuple[str, ...] = Field(min_length=1)
    """Those whose source was read, as the server's `/version` states them."""

    diff: str = ""
    """A unified diff, applied before the edits. In the patch's file its name stands here, beside
    that file; once read, its text."""

    edits: tuple[Edit, ...] = Field(min_length=1)


class Patch(Record):
    """A change of the engine's source (`arms/patches/NAME.toml`)."""

    name: Name
    description: str = Field(min_length=1)

    upstream: str = Field(min_length=1)
    """Where the change is discussed or comes from."""

    marker: str = Field(pattern=r"^\S[^\r\n]*\S$")
    """The message that the changed code itself logs, once it is in use."""

    variants: tuple[Variant, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _can_be_told_from_its_log(self) -> Self:
        releases = [release for variant in self.variants for release in variant.releases]
        for number, variant in enumerate(self.variants):
            if not any(self.marker in edit.replacement for edit in variant.edits):
                raise ValueError(f"variants.{number}: no replacement logs the marker")
            for release in variant.releases:
                if releases.count(release) > 1:
                    raise ValueError(f"variants.{number}.releases: {release} stands twice")
        return self


class PatchedFile(Record):
    """What a patch made of one file."""

    file: PackageFile
    sha256_before: Sha256 | None
    """`None`: the patch adds the file."""

    sha256_after: Sha256
    diff: str
    """From before to after, unified."""

    @property
    def module(self) -> str | None:
        """The name that it is imported by; `None` when it is no Python module."""
        if not self.file.endswith(".py"):
            return None
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class PatchProvenance(Record):
    """Exactly what was changed, stored with the run."""

    patch: str
    upstream: str
    marker: str
    release: str
    read_for_release: bool
    """False: the release is in no variant's list; exactly one variant fitted its text."""

    files: tuple[PatchedFile, ...]
    left_out: tuple[str, ...]
    """Files of the diff that are no part of the package: tests and documentation."""


class Overlay(Record):
    """A copy of the engine's package, patched, that is found before the engine's own."""

    folder: str
    """Holds the package under its own name. Stands first on PYTHONPATH; in a container it is the
    image's own folder, in which the patched files were put over theirs."""

    environment: dict[str, str]
    """Variables beside PYTHONPATH."""

    provenance: PatchProvenance


class LoadedModule(Record):
    """Which file a process of the server loaded a module from, in its own words."""

    module: str
    file: str
    sha256: Sha256
    """Of that file."""

    runs_file: bool
    """The code came from that file as it is, and not from byte code of another text."""

    pid: int
    """In the server's own PID namespace, as in its log."""

    engine_core: bool
    """The log names this process EngineCore: the one that schedules."""


class Removal(Record):
    """Whether the patched arm shows that the patch removes the effect (rule 7)."""

    removed: bool
    sentence: str
    """What was shown, or the first thing that is missing."""
