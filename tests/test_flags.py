"""A program's flags by its own help: of vLLM's, recorded, and of the miniature's."""

from orchestrator.flags import UnknownFlag, known_flags, program, unknown_flags
from tests.conftest import PROJECT

HELP = (PROJECT / "tests" / "fixtures" / "help" / "vllm-0.29.0.txt").read_text(encoding="utf-8")
"""`python -m vllm.entrypoints.openai.api_server --help=all` of vLLM for CPU 0.29.0."""


def test_every_spelling_of_an_option_is_known() -> None:
    """Long, short, and the negation that argparse makes."""
    known = known_flags(HELP)

    assert {"--compilation-config", "-cc", "--no-enable-prefix-caching", "-h"} <= known
    assert len(known) > 300


def test_a_flag_that_only_a_description_names_is_not_known() -> None:
    """Help texts speak of other programs' flags."""
    known = known_flags("options:\n  --one N  as --other does\n                 --third too\n")

    assert known == {"--one"}


def test_a_text_that_is_no_help_knows_no_flags() -> None:
    """A traceback, or nothing at all."""
    assert known_flags("Traceback (most recent call last):\n  File x\n") == frozenset()
    assert known_flags("") == frozenset()


def test_an_unknown_flag_is_told_with_the_nearest_one() -> None:
    """What a renamed or misspelt flag most probably is now."""
    unknown = unknown_flags(["--max-model-length", "8192", "--seed", "0"], known_flags(HELP))

    assert unknown == (UnknownFlag("--max-model-length", "--max-model-len"),)


def test_a_flag_that_resembles_nothing_has_no_nearest_one() -> None:
    """Nothing is proposed rather than anything."""
    assert unknown_flags(["--xyzzy-qqq"], frozenset({"--port"})) == (
        UnknownFlag("--xyzzy-qqq", None),
    )


def test_values_keys_and_other_spellings_are_no_unknown_flags() -> None:
    """As vLLM's own parser takes them."""
    arguments = [
        "--max_model_len=8192", "-cc.cudagraph_mode=PIECEWISE", "-O3", "-1", "-0.5",
        "--compilation-config.mode", "3", '{"method": "--no"}',
    ]  # fmt: skip

    assert unknown_flags(arguments, known_flags(HELP) | {"-O"}) == ()


def test_each_unknown_flag_is_told_once() -> None:
    """Five arms that share a mistake have made one."""
    assert len(unknown_flags(["--nope"] * 5, frozenset({"--port"}))) == 1


def test_the_program_is_what_stands_before_the_flags() -> None:
    """An interpreter with its module, or a command with what it serves."""
    assert program(["python", "-m", "a.b", "--port", "1"]) == ["python", "-m", "a.b"]
    assert program(["vllm", "serve", "/model"]) == ["vllm", "serve", "/model"]
