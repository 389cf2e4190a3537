"""Pages of a stranger's run in a real browser: nothing of theirs runs, and nothing is fetched."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.listing import refresh_index
from orchestrator.cli.reporting import page
from orchestrator.model.plan import Plan
from orchestrator.runner import judge_run
from tests.hostile_run import fail, taint
from tests.pages import parsed
from tests.test_html_report import CRASH, EVIDENCE, RUNS, recorded

TITLE = "taken over"
ATTACKS = (
    "<script>document.title='{title}'</script>",
    '"><img src="{canary}/image" onerror="document.title=\'{title}\'">',
    "'><svg onload=\"document.title='{title}'\"><image href='{canary}/svg'/></svg>",
    "</style><style>@import url({canary}/style);p{{background:url({canary}/back)}}</style>",
    '<meta http-equiv="refresh" content="0;url={canary}/refresh">',
    '<link rel="stylesheet" href="{canary}/link"><base href="{canary}/">',
    '<iframe src="{canary}/frame"></iframe><object data="{canary}/object"></object>',
    "</title></textarea><body onload=\"document.title='{title}'\">",
    "--><!--]]>{{{{7*7}}}}{{%raw%}}&lt;script&gt;\u202e\u2066",
)
"""What a text would have to do to be more than text: run, fetch, lead away, or end its element."""


@dataclass
class Site:
    """Serves a folder, and notes whatever else is asked for."""

    folder: Path
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def attack(self) -> str:
        """All of them, one after the other."""
        canary = f"{self.address}/canary"
        return "".join(ATTACKS).format(title=TITLE, canary=canary)

    def fetched(self) -> list[str]:
        """What an attack has had fetched."""
        return [path for path in self.asked if path.startswith("/canary")]


class _Noting(SimpleHTTPRequestHandler):
    def __init__(self, *args: object, site: Site) -> None:
        self._site = site
        super().__init__(*args, directory=str(site.folder))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._site.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """An empty one."""
    with serving(Site(tmp_path / "site")) as served:
        yield served


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """On a port of its own."""
    site.folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Noting, site=site)) as server:
        site.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield site
        server.shutdown()


@dataclass(frozen=True)
class Opened:
    """A page as the browser has it after all that wanted to happen has happened."""

    document: str
    console: tuple[str, ...]


def opened(browser: str, url: str, profile: Path) -> Opened:
    """Open it, and give whatever is in it four seconds of the browser's own time."""
    done = subprocess.run(
        [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
         "--virtual-time-budget=4000", "--enable-logging=stderr", f"--user-data-dir={profile}",
         url],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    console = tuple(line for line in done.stderr.splitlines() if ":CONSOLE" in line)
    return Opened(done.stdout, console)


def test_the_attacks_work_on_a_page_that_does_not_escape_them(
    site: Site, browser: str, tmp_path: Path
) -> None:
    """What the next test does not see, this one does: scripts, fetches, and being led away."""
    for number, attack in enumerate(ATTACKS[:-1]):
        made = attack.format(title=TITLE, canary=f"{site.address}/canary")
        (site.folder / f"{number}.html").write_text(f"<!DOCTYPE html><p>{made}</p>")
        site.asked.clear()
        shown = opened(browser, f"{site.address}/{number}.html", tmp_path / "profile")
        assert _title(shown.document) == TITLE or site.fetched(), attack


def test_no_text_of_a_strangers_run_becomes_more_than_text(
    site: Site, browser: str, tmp_path: Path
) -> None:
    """Their report and the index of runs, from disk and from a server, full of attacks."""
    attack = site.attack()
    project = site.folder / "project"
    run = project / "runs" / "four-arm" / "2026-01-01T00-00-00Z-<img src=x onerror=alert(1)>"
    shutil.copytree(EVIDENCE / "cpu-four-arm", run)
    taken = taint(run, attack)
    log = CRASH.read_bytes().replace(b"no_such_format", attack.encode())
    fail(run, "sham-patch", log, f"ServerDiedError: {attack}")
    store = RunStore.open(run)
    planned = store.read("plan.json", Plan)
    verdict = judge_run(planned, store)
    store.write_text("report.html", page(planned, verdict, store))
    refresh_index(project)

    assert {"question", "command", "argv", "kernel", "reason", "model_root"} <= taken
    for made in (run / "report.html", project / "runs" / "index.html"):
        text = made.read_text(encoding="utf-8")
        served = f"{site.address}/{made.relative_to(site.folder)}".replace("<", "%3C")
        for url in (made.as_uri(), served.replace(">", "%3E").replace(" ", "%20")):
            shown = opened(browser, url, tmp_path / "profile")
            assert site.fetched() == []
            assert _title(shown.document) != TITLE
            assert shown.console == ()
            assert parsed(text) is not None
            assert "<img" not in shown.document
            assert "<script" not in shown.document
    assert "&lt;script&gt;document.title" in (run / "report.html").read_text(encoding="utf-8")


def test_a_browser_opens_the_page_from_disk_without_a_complaint(
    browser: str, tmp_path: Path
) -> None:
    """Nothing on its console, and the whole page is there."""
    file = tmp_path / "report.html"
    file.write_text(recorded(RUNS[0]), encoding="utf-8")
    shown = opened(browser, file.as_uri(), tmp_path / "profile")

    assert 'id="repeat"' in shown.document
    assert shown.console == ()


def _title(document: str) -> str:
    """Of a page as the browser has it."""
    return document.partition("<title>")[2].partition("</title>")[0]
