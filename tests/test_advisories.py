"""The check of dependencies, against a database of our own that answers as OSV does."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.advisories import main

ADVISORY = {
    "id": "GHSA-test-0001",
    "modified": "2026-01-01T00:00:00Z",
    "published": "2026-01-01T00:00:00Z",
    "summary": "An advisory of this test.",
    "affected": [
        {
            "package": {"name": "oldlib", "ecosystem": "PyPI"},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]},
            ],
            "versions": ["1.0"],
        }
    ],
}
"""In the form of https://ossf.github.io/osv-schema/."""


class Database(BaseHTTPRequestHandler):
    """Knows one advisory."""

    def do_POST(self) -> None:
        """Answer a query for one package and version."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        hit = (asked["package"]["name"], asked["version"]) == ("oldlib", "1.0")
        body = json.dumps({"vulns": [ADVISORY]} if hit else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def database() -> Iterator[str]:
    """Its address."""
    with HTTPServer(("127.0.0.1", 0), Database) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with one installed package, as pip leaves it."""
    metadata = tmp_path / "oldlib-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: oldlib\nVersion: 1.0\n")
    return tmp_path


def test_a_package_with_a_known_advisory_fails_the_check(
    packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name, the advisory, and the release that mends it."""
    with database() as url:
        code = main(["--osv-url", url, "--path", str(packages)])

    assert code == 1
    assert "oldlib 1.0: GHSA-test-0001, mended in 1.1" in capsys.readouterr().out


def test_a_package_without_one_passes(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line says of how many packages none is known."""
    metadata = packages / "oldlib-1.0.dist-info"
    metadata = metadata.rename(packages / "oldlib-1.1.dist-info")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: oldlib\nVersion: 1.1\n")
    with database() as url:
        code = main(["--osv-url", url, "--path", str(packages)])

    assert code == 0
    assert capsys.readouterr().out == "advisories: none known for 1 packages\n"


def test_a_database_that_does_not_answer_is_told_and_is_no_clean_bill(
    packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing listens there any more."""
    with database() as url:
        pass
    code = main(["--osv-url", url, "--path", str(packages)])

    assert code == 0
    assert "advisories: NOT CHECKED" in capsys.readouterr().out
