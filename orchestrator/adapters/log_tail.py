"""A server's log while it grows."""

from pathlib import Path

from orchestrator.model.serverlog import Finding
from orchestrator.serverlog.scan import Scanner

_BLOCK_BYTES = 1 << 20
_LAST_LINE_CHARACTERS = 160


class LogTail:
    """Reads what was added since the last look, and hands it to the scanner."""

    def __init__(self, path: Path) -> None:
        self.bytes = 0
        self.last_line = ""
        self._file = path.open("rb")
        self._scanner = Scanner()

    def read_new(self) -> tuple[Finding, ...]:
        """The findings in what was added."""
        found: list[Finding] = []
        while block := self._file.read(_BLOCK_BYTES):
            self.bytes += len(block)
            found += self._scanner.feed(block)
            lines = block.decode("utf-8", "replace").splitlines()
            self.last_line = next(
                (line.strip()[:_LAST_LINE_CHARACTERS] for line in reversed(lines) if line.strip()),
                self.last_line,
            )
        return tuple(found)

    def root_cause(self) -> str | None:
        """What made the server fail, as its log tells it; `None` when it does not tell."""
        self.read_new()
        cause = self._scanner.finish().root_cause
        return None if cause is None else f"{cause.summary}: {cause.excerpt}"

    def close(self) -> None:
        """Close the file."""
        self._file.close()
