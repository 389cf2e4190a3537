"""The command line.

Exit codes: 0 as expected, or not seen · 1 not as expected, affected, regressed · 2 usage or
definition error · 3 inconclusive · 4 infrastructure failure · 70 a bug of ours · 130 interrupted,
with everything torn down.

Every command imports what it needs when it is called: `--help` must not wait for pydantic.
"""

import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.errors import DefinitionError, InterruptedRunError, OrchestratorError

if TYPE_CHECKING:
    from orchestrator.model.plan import Selection

app = typer.Typer(
    name="vllm-arms",
    help="Run one fresh vLLM server per arm, and say with evidence whether their answers differ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

DEFAULT_PROFILE = "vllm-cpu-tiny-hybrid"

ExperimentArgument = Annotated[str, typer.Argument(help="Name of a file in arms/, or its path.")]
ProfileOption = Annotated[str, typer.Option("--profile", "-p", help="Name in launch_profiles/.")]
RunProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        help=f"Name in launch_profiles/. [default: {DEFAULT_PROFILE}, or what the arms name]",
        show_default=False,
    ),
]
ArmOption = Annotated[list[str] | None, typer.Option("--arm", help="Only this arm; repeatable.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="One document, one length of A.")]
FullOption = Annotated[bool, typer.Option("--full", help="Every document, every length of A.")]
ProjectOption = Annotated[
    Path, typer.Option("--project", help="Folder with arms/, launch_profiles/ and runs/.")
]
RunArgument = Annotated[
    str, typer.Argument(help="latest, a run's name or a beginning of it, or its folder.")
]


class ReportFormat(StrEnum):
    """What `report` can print."""

    MARKDOWN = "md"
    HTML = "html"
    JUNIT = "junit"
    COMMENT = "comment"


def main() -> int:
    """Parse, dispatch, and turn errors into exit codes."""
    try:
        app()
    except (OrchestratorError, InterruptedRunError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the program's own voice
        return error.exit_code
    except Exception:  # noqa: BLE001 - Python's own exit code would be 1, which says "affected"
        traceback.print_exc()
        return OrchestratorError.exit_code
    return 0


@app.command()
def run(
    experiment: Annotated[
        str | None, typer.Argument(help="Name of a file in arms/, or its path.")
    ] = None,
    profile: RunProfileOption = None,
    arm: ArmOption = None,
    quick: QuickOption = False,
    full: FullOption = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Keep the finished arms of this run, and run the others; what is not given is"
            " taken from it.",
        ),
    ] = None,
    project: ProjectOption = Path(),
) -> None:
    """Run an experiment: fresh servers, probes, verdicts, report."""
    from orchestrator.cli.planning import Wanted
    from orchestrator.cli.resuming import earlier_run, wanted_again
    from orchestrator.cli.running import run_experiment

    selection = _selection(quick=quick, full=full)
    if resume is not None:
        earlier = earlier_run(project, resume)
        given = selection if quick or full else None
        wanted = wanted_again(earlier, experiment, profile, given, tuple(arm or ()))
        raise typer.Exit(run_experiment(project, wanted, earlier))
    if experiment is None:
        raise DefinitionError("EXPERIMENT", "Missing argument: name one, or a run with --resume")
    wanted = Wanted(
        experiment=experiment,
        profile=profile,
        selection=selection,
        arms=tuple(arm or ()),
    )
    raise typer.Exit(run_experiment(project, wanted, None))


@app.command()
def plan(
    experiment: ExperimentArgument,
    profile: RunProfileOption = None,
    arm: ArmOption = None,
    quick: QuickOption = False,
    full: FullOption = False,
    project: ProjectOption = Path(),
) -> None:
    """Print everything resolved, and start nothing."""
    from orchestrator.cli.showing import print_plan

    print_plan(project, experiment, profile, _selection(quick=quick, full=full), arm or [])


@app.command()
def prepare(profile: ProfileOption = DEFAULT_PROFILE, project: ProjectOption = Path()) -> None:
    """Prepare a profile's engine in the cache folder; does nothing when it is there."""
    from orchestrator.cli.showing import print_preparation

    print_preparation(project, profile)


@app.command("build-image")
def build_image(
    name: Annotated[str, typer.Argument(help="miniature or vllm-cpu.")],
    base: Annotated[
        str, typer.Option(help="An image with the Python that runs this.", envvar="ENGINE_IMAGE")
    ] = "python:3.11-slim",
    project: ProjectOption = Path(),
) -> None:
    """Build an image of the project's own on the Docker Engine, without a registry."""
    from orchestrator.cli.imaging import print_built_image

    print_built_image(project, name, base)


@app.command()
def analyze(run: RunArgument, project: ProjectOption = Path()) -> None:
    """Judge a run again from its raw files; write nothing."""
    from orchestrator.cli.listing import find_run
    from orchestrator.cli.showing import print_analysis

    raise typer.Exit(print_analysis(find_run(project, run)))


@app.command()
def report(
    run: RunArgument,
    form: Annotated[
        ReportFormat,
        typer.Option(
            "--format", help="Markdown, one HTML page, JUnit XML, or a comment for upstream."
        ),
    ] = ReportFormat.MARKDOWN,
    bundle: Annotated[
        Path | None, typer.Option(help="With the comment: write the raw data as .tar.xz.")
    ] = None,
    repro: Annotated[
        Path | None, typer.Option(help="With the comment: write a .py that repeats one cell.")
    ] = None,
    raw_data: Annotated[
        str | None, typer.Option("--raw-data", help="With the comment: where the data will be.")
    ] = None,
    project: ProjectOption = Path(),
) -> None:
    """Print a run's report, made anew from its raw files."""
    from orchestrator.cli.listing import find_run

    folder = find_run(project, run)
    if form is ReportFormat.COMMENT:
        from orchestrator.cli.sharing import print_comment

        print_comment(project, folder, bundle=bundle, repro=repro, raw_data=raw_data)
        return
    if any(option is not None for option in (bundle, repro, raw_data)):
        raise DefinitionError(
            "--bundle, --repro, --raw-data", "go with a comment: add --format comment"
        )
    from orchestrator.cli.reporting import print_report

    print_report(folder, form)


@app.command()
def compare(
    run: RunArgument,
    baseline: Annotated[str, typer.Argument(help="The run to hold it to, named likewise.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    project: ProjectOption = Path(),
) -> None:
    """Set a run beside a baseline; refused where a field that matters differs."""
    from orchestrator.cli.comparing import print_comparison
    from orchestrator.cli.listing import find_run

    folders = (find_run(project, run), find_run(project, baseline))
    raise typer.Exit(print_comparison(*folders, as_json=as_json))


@app.command()
def doctor(
    profile: ProfileOption = DEFAULT_PROFILE,
    experiment: Annotated[
        str, typer.Option("--experiment", "-e", help="Name of a file in arms/.")
    ] = "four-arm",
    project: ProjectOption = Path(),
) -> None:
    """Check whether this machine can run an experiment; start nothing."""
    from orchestrator.cli.doctor.examining import examine

    raise typer.Exit(examine(project, experiment, profile))


@app.command()
def reap(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say it, and do nothing.")] = False,
    project: ProjectOption = Path(),
) -> None:
    """Remove what killed runs left behind: only ours, only if its orchestrator is dead."""
    from orchestrator.cli.reaping import reap as reap_all

    raise typer.Exit(reap_all(project, dry_run=dry_run))


@app.command()
def trim(
    run: RunArgument,
    target: Annotated[Path, typer.Argument(help="A folder that does not exist yet.")],
    project: ProjectOption = Path(),
) -> None:
    """Copy what `analyze` needs of a run, with this machine's paths replaced."""
    from orchestrator.cli.listing import find_run
    from orchestrator.cli.showing import print_trimming

    print_trimming(project, find_run(project, run), target)


@app.command()
def predict(
    experiment: Annotated[str | None, typer.Argument(help="Name of a file in arms/.")] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option("--pair", help="Tokens of A, B, and shared: 3196:3259:3052; repeatable."),
    ] = None,
    a_range: Annotated[
        list[str] | None,
        typer.Option("--range", help="The same, A a range: 3190-3205:3259:3052."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help='JSON lines: {"prompt": [ids], "cache_salt": …}.')
    ] = None,
    profile: ProfileOption = DEFAULT_PROFILE,
    versions: Annotated[
        list[str] | None,
        typer.Option("--versions", help="A release, a wheel, a venv or image:NAME; repeatable."),
    ] = None,
    block: Annotated[int | None, typer.Option(help="Block size in tokens.", min=1)] = None,
    speculative: Annotated[
        bool | None, typer.Option("--speculative/--no-speculative", help="MTP or EAGLE drafts.")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Tokens of one step.", min=1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    project: ProjectOption = Path(),
) -> None:
    """Say what the scheduler will do: chunks, cached tokens, writers, eligible or not."""
    from orchestrator.cli.predicting import Question, print_predictions

    question = Question(
        experiment=experiment,
        pairs=pair or [],
        ranges=a_range or [],
        trace=trace,
        profile=profile,
        versions=versions or [],
        block=block,
        speculative=speculative,
        budget=budget,
        as_json=as_json,
    )
    print_predictions(project, question)


@app.command()
def nightly(
    config: Annotated[
        Path | None, typer.Argument(help="TOML file; nightly.toml of the project when not given.")
    ] = None,
    project: ProjectOption = Path(),
) -> None:
    """Run the experiments of a config, hold each to its baseline, print one line."""
    from orchestrator.cli.nightly import run_nightly

    raise typer.Exit(run_nightly(project, config or project / "nightly.toml"))


@app.command("list")
def list_runs(
    experiment: Annotated[str | None, typer.Option(help="Only of this experiment.")] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", "-p", help="Only on this one.")
    ] = None,
    result: Annotated[
        str | None, typer.Option(help='Only what came to this, such as "as expected" or killed.')
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only from this on: 2026-11-30, in UTC.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, one a run.")] = False,
    project: ProjectOption = Path(),
) -> None:
    """List the runs in runs/, newest first."""
    from orchestrator.cli.listing import moment, print_list
    from orchestrator.listing import Filter

    wanted = Filter(
        experiment=experiment,
        profile=profile,
        word=result,
        since=None if since is None else moment(since),
    )
    print_list(project, wanted, as_json=as_json)


@app.command()
def show(
    run: RunArgument,
    project: ProjectOption = Path(),
) -> None:
    """Show what a run is, and what it came to."""
    from orchestrator.cli.listing import print_run

    print_run(project, run)


@app.command("scan-log")
def scan_log(
    files: Annotated[list[Path], typer.Argument(help="Logs of vLLM servers.")],
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, one a file.")] = False,
) -> None:
    """Print the facts and findings of any vLLM log."""
    from orchestrator.cli.showing import print_log_scans

    print_log_scans(files, as_json=as_json)


def _selection(*, quick: bool, full: bool) -> "Selection":
    if quick and full:
        raise DefinitionError("--quick, --full", "only one of the two can be given")
    return "quick" if quick else "full" if full else "plain"
