"""A patch of the engine's source, what it made of it, and what a server says that it loaded."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from orchestrator.model.container import ImagePin
from orchestrator.model.profile import Name
from orchestrator.model.record import Record

SHAM = "sham"
"""The patch that changes no meaning; an arm that runs under it is a control."""

PackageFile = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(/[\w-][\w.-]*)+$")]
"""A file as it is imported, from the package's name on: `vllm/v1/core/sched/scheduler.py`."""


def module_of(file: str) -> str | None:
    """The name that a file is imported by; `None` when it is no Python module."""
    if not file.endswith(".py"):
        return None
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]

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

    releases: tuple[str, ...] = ()
    """Those whose source was read, as the server's `/version` states them. None where nobody read
    any: the variant is then taken where it alone fits."""

    files: dict[PackageFile, str] = Field(default_factory=dict)
    """Whole files in place of the engine's. In the patch's file the name of a folder stands here,
    beside that file; once read, the files in it and their texts."""

    diff: str = ""
    """A unified diff, applied before the edits. In the patch's file its name stands here, beside
    that file; once read, its text."""

    obtain: str = ""
    """How to get the diff, where it is not ours to ship; told as long as it is not there."""

    image: ImagePin | None = None
    """Another image in place of the profile's: what it changes is found by comparing the package
    in both."""

    image_package: PackageName | None = None
    """The package that is compared."""

    edits: tuple[Edit, ...] = ()

    @property
    def package(self) -> str:
        """Top folder of everything that it changes."""
        if self.image_package is not None:
            return self.image_package
        return next(iter((*(edit.file for edit in self.edits), *self.files))).partition("/")[0]

    @model_validator(mode="after")
    def _is_one_change_of_one_package(self) -> Self:
        if (self.image is None) != (self.image_package is None):
            raise ValueError("image, image_package: one is nothing without the other")
        if self.image is not None:
            if self.files or self.diff or self.edits:
                raise ValueError("image: is changed already; nothing else is done to it")
            return self
        if self.files and self.diff:
            raise ValueError("files: stand in place of a diff, not beside it")
        if self.files and not self.releases:
            raise ValueError("releases: whole files are those of the releases that they came from")
        named = [*(edit.file for edit in self.edits), *self.files]
        if not named:
            raise ValueError("edits: one is needed at least, to log the marker")
        if any(not file.startswith(f"{self.package}/") for file in named):
            raise ValueError(f"edits, files: not all of them lie below {self.package}/")
        return self


class Patch(Record):
    """A change of the engine's source (`arms/patches/NAME.toml`)."""

    name: Name
    description: str = Field(min_length=1)

    upstream: str = Field(min_length=1)
    """Where the change is discussed or comes from."""

    marker: str = Field(pattern=r"^\S[^\r\n]*\S$")
    """The message that the changed code itself logs, once it is in use."""

    variants: tuple[Variant, ...] = Field(min_length=1)

    def variant_for(self, release: str) -> Variant:
        """The variant whose list has the release; else the first."""
        return next((v for v in self.variants if release in v.releases), self.variants[0])

    @model_validator(mode="after")
    def _can_be_told_from_its_log(self) -> Self:
        releases = [release for variant in self.variants for release in variant.releases]
        for number, variant in enumerate(self.variants):
            texts = (*(edit.replacement for edit in variant.edits), *variant.files.values())
            if variant.image is None and not any(self.marker in text for text in texts):
                raise ValueError(f"variants.{number}: no replacement and no file logs the marker")
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
        return module_of(self.file)


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
