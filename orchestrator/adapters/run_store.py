"""`runs/EXPERIMENT/TIME-HASH/`: every file is written whole, once, and never over another.

What each file holds, its units, and what its absence means: `docs/results.md`.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.adapters.host_sampling import read_samples
from orchestrator.adapters.packed_files import (
    COMPRESSED,
    PACKED,
    UNREADABLE,
    blocks,
    read_whole,
    unpacked,
    unpacked_blocks,
    unpacked_files,
)
from orchestrator.errors import HostError, RunFolderError
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange, ExchangeTimes
from orchestrator.model.host import Beat, HostAccount, MemorySample, RunEnd, RunStart
from orchestrator.model.outcome import OUTCOME, Outcome
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.provenance import ArmProvenance
from orchestrator.model.record import Record
from orchestrator.model.resumption import Resumption

R = TypeVar("R", bound=Record)

TRIMMED = "trimmed.json"
"""Stands in a copy that `trim` made."""


class RunStore:
    """The folder of one run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def create(cls, runs: Path, experiment: str, plan_hash: str, now: datetime) -> "RunStore":
        """Make the folder of a new run.

        Raises:
            HostError: It cannot be made, or is there already.
        """
        stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        root = runs / experiment / f"{stamp}-{plan_hash}"
        try:
            root.mkdir(parents=True)
        except OSError as error:
            raise HostError(f"cannot make the run's folder: {error}") from error
        return cls(root)

    @classmethod
    def open(cls, root: Path) -> "RunStore":
        """Open the folder of a finished run.

        Raises:
            RunFolderError: It is not the folder of a run.
        """
        store = cls(root)
        if not store.has("plan.json"):
            raise RunFolderError(f"{root}: is no run's folder: it has no plan.json")
        return store

    def arm_dir(self, arm: str) -> Path:
        """Where one arm's files go; made on first use."""
        path = self.root / "arms" / arm
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write_bytes(self, relative: str, content: bytes) -> None:
        """Write a file whole or not at all.

        Raises:
            FileExistsError: It is there already; runs are never edited.
            HostError: The disk does not take it.
        """
        path = self.root / relative
        partial = path.with_name(f".{path.name}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(content)
            os.link(partial, path)  # unlike a rename, fails when the target exists
        except FileExistsError:
            raise
        except OSError as error:
            raise HostError(f"cannot write {path}: {error}") from error
        finally:  # also when a signal came in between
            with suppress(OSError):  # a disk that takes nothing gives nothing back either
                partial.unlink(missing_ok=True)

    def write_text(self, relative: str, text: str) -> None:
        """Write a text file; see `write_bytes`."""
        self.write_bytes(relative, text.encode())

    def write(self, relative: str, record: BaseModel) -> None:
        """Write a record as indented JSON; see `write_bytes`."""
        self.write_text(relative, record.model_dump_json(indent=2) + "\n")

    def write_lines(self, relative: str, records: Iterable[BaseModel]) -> None:
        """Write records as JSON lines; see `write_bytes`."""
        self.write_text(relative, "".join(r.model_dump_json() + "\n" for r in records))

    def keep(self, arm: str, exchange: Exchange) -> None:
        """Put an exchange's bytes on disk, uninterpreted."""
        base = f"arms/{arm}/exchanges/{exchange.times.probe.id}"
        self.write_bytes(f"{base}.request.json", exchange.request)
        self.write_bytes(f"{base}.response.json", exchange.response)
        self.write(f"{base}.times.json", exchange.times)

    def keep_beats(self, arm: str, probe: str, beats: Iterable[Beat]) -> None:
        """Put the counters that were read during a probe on disk."""
        self.write_lines(f"arms/{arm}/exchanges/{probe}.beats.jsonl", beats)

    def save_counters(self, arm: str, probe: str, lines: str) -> None:
        """Put the server's counters after a probe on disk."""
        self.write_text(f"arms/{arm}/exchanges/{probe}.metrics.txt", lines)

    def save_page(self, arm: str, name: str, text: str) -> None:
        """Put a page of the server on disk, as it is."""
        self.write_text(f"arms/{arm}/{name}", text)

    def save_facts(self, arm: str, facts: EngineFacts) -> None:
        """Put what the ready server said about itself on disk."""
        self.write(f"arms/{arm}/engine.json", facts)

    def save_host(self, arm: str, account: HostAccount) -> None:
        """Put what an arm did to its machine on disk."""
        self.write(f"arms/{arm}/host.json", account)

    def save_outcome(self, arm: str, outcome: Outcome) -> None:
        """Put how an arm ended on disk."""
        self.write(f"arms/{arm}/outcome.json", outcome)

    def outcome(self, arm: str) -> Outcome | None:
        """How an arm ended; `None` when it never did.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        content = self.read_bytes(f"arms/{arm}/outcome.json")
        try:
            return None if content is None else OUTCOME.validate_json(content)
        except ValidationError as error:
            raise RunFolderError(f"{self.root}/arms/{arm}/outcome.json: {error}") from error

    def facts(self, arm: str) -> EngineFacts | None:
        """What an arm's server said about itself; `None` when it never became ready.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        name = f"arms/{arm}/engine.json"
        return self.read(name, EngineFacts) if self.has(name) else None

    def overlay(self, arm: str) -> Overlay | None:
        """The patched copy that an arm ran on; `None` when it ran on none.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        name = f"arms/{arm}/overlay.json"
        return self.read(name, Overlay) if self.has(name) else None

    def launch(self, arm: str) -> LaunchPlan | None:
        """How an arm's server was launched; `None` when the arm was not reached.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        name = f"arms/{arm}/launch.json"
        return self.read(name, LaunchPlan) if self.has(name) else None

    def start(self) -> RunStart:
        """When, by which command, and where the run began.

        Raises:
            RunFolderError: The file is missing, or not what it should be.
        """
        return self.read("run.json", RunStart)

    def end(self) -> RunEnd | None:
        """How the run ended; `None` when it never did.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        return self.read("end.json", RunEnd) if self.has("end.json") else None

    def resumption(self) -> Resumption | None:
        """What the run kept of an earlier one; `None` when it was not resumed.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        return self.read("resumed.json", Resumption) if self.has("resumed.json") else None

    def provenance(self, arm: str) -> ArmProvenance | None:
        """What an arm's server was made of; `None` when it was not reached, or in an older run.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        name = f"arms/{arm}/provenance.json"
        return self.read(name, ArmProvenance) if self.has(name) else None

    def log(self, arm: str) -> bytes:
        """The server's whole log; empty when there is none."""
        return b"".join(self.log_blocks(arm))

    def log_blocks(self, arm: str) -> Iterator[bytes]:
        """The same, a block at a time: a log may be larger than what memory is there for it.

        Raises:
            RunFolderError: The disk does not give it, or what was compressed cannot be unpacked.
        """
        path = self._stored(f"arms/{arm}/server.log")
        if not path.is_file():
            return
        try:
            with path.open("rb") as file:
                yield from unpacked_blocks(file) if path.suffix == COMPRESSED else blocks(file)
        except UNREADABLE as error:
            raise RunFolderError(f"{path}: cannot be read: {error}") from error

    def log_file(self, arm: str) -> str | None:
        """Name of the server's log in the arm's folder; `None` when there is none."""
        path = self._stored(f"arms/{arm}/server.log")
        return path.name if path.is_file() else None

    def page(self, arm: str, name: str) -> str | None:
        """A page of the server that was saved; `None` when it was not."""
        content = self.read_bytes(f"arms/{arm}/{name}")
        return None if content is None else content.decode("utf-8", "replace")

    def memory(self, arm: str) -> tuple[MemorySample, ...]:
        """Memory samples of an arm, in the order in which they were taken.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        name = f"arms/{arm}/memory.jsonl"
        try:
            return read_samples(self.read_bytes(name) or b"")
        except ValidationError as error:
            raise RunFolderError(f"{self.root}/{name}: {error}") from error

    def host(self, arm: str) -> HostAccount | None:
        """What an arm did to its machine; `None` when it was not reached, or we were killed.

        Raises:
            RunFolderError: The file is not what it should be.
        """
        name = f"arms/{arm}/host.json"
        return self.read(name, HostAccount) if self.has(name) else None

    def has(self, relative: str) -> bool:
        """Whether the file is there, as it is or compressed by `trim`."""
        return self._stored(relative).is_file()

    def read(self, relative: str, kind: type[R]) -> R:
        """Read a record.

        Raises:
            RunFolderError: It is missing, or not what it should be.
        """
        path = self.root / relative
        content = self.read_bytes(relative)
        if content is None:
            raise RunFolderError(f"{path}: is missing")
        try:
            return kind.from_json(content)
        except ValidationError as error:
            problems = [
                f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}".removeprefix(": ")
                for problem in error.errors(include_url=False)[:3]
            ]
            raise RunFolderError(f"{path}: {'; '.join(problems)}") from error

    def read_bytes(self, relative: str) -> bytes | None:
        """A file's content, which `trim` may have compressed; `None` when it is not there.

        Raises:
            RunFolderError: The disk does not give it, or what was compressed cannot be unpacked.
        """
        path = self._stored(relative)
        if not path.is_file():
            return None
        try:
            with path.open("rb") as file:
                plain = path == self.root / relative
                return read_whole(file) if plain else unpacked(read_whole(file))
        except UNREADABLE as error:
            raise RunFolderError(f"{path}: cannot be read: {error}") from error

    def _stored(self, relative: str) -> Path:
        """Where a file is, or would be: only a trimmed run has compressed ones."""
        path = self._inside(self.root / relative)
        if path.is_file() or not (self.root / TRIMMED).is_file():
            return path
        return self._inside(path.with_name(path.name + COMPRESSED))

    def _inside(self, path: Path) -> Path:
        """The path, unless a link in a stranger's folder leads it elsewhere.

        Raises:
            RunFolderError: It does.
        """
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise RunFolderError(f"{path}: leads out of the run's folder")
        return path

    def exchanges(self, arm: str) -> Iterator[tuple[Exchange, str]]:
        """An arm's exchanges in the order of their probe ids, each with its counters.

        Reads the folder, or the archive that a trimmed run has instead.

        Raises:
            RunFolderError: A part of an exchange is missing or cannot be read.
        """
        files = self.exchange_files(arm)
        for name in sorted(name for name in files if name.endswith(".times.json")):
            base = name.removesuffix(".times.json")
            try:
                times = ExchangeTimes.from_json(files[name])
                exchange = Exchange(
                    times=times,
                    request=files[f"{base}.request.json"],
                    response=files[f"{base}.response.json"],
                )
            except (KeyError, ValidationError) as error:
                raise RunFolderError(f"{self.root}: {arm}: exchange {base}: {error}") from error
            yield exchange, files.get(f"{base}.metrics.txt", b"").decode("utf-8", "replace")

    def exchange_files(self, arm: str) -> dict[str, bytes]:
        """An arm's exchanges as they lie on disk, or in the archive that stands for them.

        Raises:
            RunFolderError: The disk does not give them, or the archive cannot be read.
        """
        folder = self.root / "arms" / arm / "exchanges"
        if folder.is_dir():
            return self._read_all(folder)
        packed = self._inside(folder.with_name(PACKED))
        if not packed.is_file():
            return {}
        try:
            with packed.open("rb") as file:
                return unpacked_files(read_whole(file))
        except UNREADABLE as error:
            raise RunFolderError(f"{packed}: cannot be read: {error}") from error

    def _read_all(self, folder: Path) -> dict[str, bytes]:
        try:
            return {path.name: self._exchange_file(path) for path in folder.iterdir()}
        except UNREADABLE as error:
            raise RunFolderError(f"{folder}: cannot be read: {error}") from error

    def _exchange_file(self, path: Path) -> bytes:
        if not self._inside(path).is_file():  # a pipe would be waited on for ever
            raise ValueError(f"{path.name!r} is no plain file of an exchange")
        with path.open("rb") as file:
            return read_whole(file)
