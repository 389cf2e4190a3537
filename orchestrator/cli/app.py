"""The command line.

Exit codes: 0 as expected, or not seen · 1 not as expected, affected · 2 usage or definition error
· 3 inconclusive · 4 infrastructure failure · 130 interrupted, with everything torn down.

Every command imports what it needs when it is called: `--help` must not wait for pydantic.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.errors import DefinitionError, OrchestratorError

if TYPE_CHECKING:
    from orchestrator.model.plan import Selection

app = typer.Typer(
    name="vllm-arms",
    help="Run one fresh vLLM server per arm, and say with evidence whether their answers differ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ExperimentArgument = Annotated[str, typer.Argument(help="Name of a file in arms/, or its path.")]
ProfileOption = Annotated[str, typer.Option("--profile", "-p", help="Name in launch_profiles/.")]
ArmOption = Annotated[list[str] | None, typer.Option("--arm", help="Only this arm; repeatable.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="One document, one length of A.")]
FullOption = Annotated[bool, typer.Option("--full", help="Every document, every length of A.")]
ProjectOption = Annotated[
    Path, typer.Option("--project", help="Folder with arms/, launch_profiles/ and runs/.")
]
RunArgument = Annotated[Path, typer.Argument(help="Folder of a run.")]

DEFAULT_PROFILE = "vllm-cpu-tiny-hybrid"


def main() -> int:
    """Parse, dispatch, and turn errors into exit codes."""
    try:
        app()
    except OrchestratorError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the program's own voice
        return error.exit_code
    return 0


@app.command()
def run(
    experiment: ExperimentArgument,
    profile: ProfileOption = DEFAULT_PROFILE,
    arm: ArmOption = None,
    quick: QuickOption = False,
    full: FullOption = False,
    project: ProjectOption = Path(),
) -> None:
    """Run an experiment: fresh servers, probes, verdicts, report."""
    from orchestrator.cli.running import run_experiment

    selection = _selection(quick=quick, full=full)
    raise typer.Exit(run_experiment(project, experiment, profile, selection, arm or []))


@app.command()
def plan(
    experiment: ExperimentArgument,
    profile: ProfileOption = DEFAULT_PROFILE,
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
def analyze(run: RunArgument) -> None:
    """Judge a run again from its raw files; write nothing."""
    from orchestrator.cli.showing import print_analysis

    raise typer.Exit(print_analysis(run))


@app.command()
def report(run: RunArgument) -> None:
    """Print a run's report as Markdown, made anew from its raw files."""
    from orchestrator.cli.showing import print_report

    print_report(run)


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
    from orchestrator.cli.showing import print_trimming

    print_trimming(project, run, target)


@app.command()
def predict(
    experiment: Annotated[str | None, typer.Argument(help="Name of a file in arms/.")] = None,
    pair: Annotated[
        list[str] | None, typer.Option("--pair", help="A:B or A:B:SHARED, in tokens; repeatable.")
    ] = None,
    a_range: Annotated[
        list[str] | None, typer.Option("--range", help="A1-A2:B:SHARED, in tokens; repeatable.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help='JSON lines: {"prompt": [ids], "cache_salt": …}.')
    ] = None,
    profile: ProfileOption = DEFAULT_PROFILE,
    versions: Annotated[
        list[str] | None, typer.Option("--versions", help="vLLM releases to compare; repeatable.")
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
