"""`vllm-arms predict`, called as a user calls it."""

import json
from pathlib import Path

import pytest

from tests.conftest import PROJECT, Call

ARTICLE = ("--block", 1600, "--budget", 8192, "--project", PROJECT)
"""The article's grid and token budget; drafts as in the default profile."""


def test_nine_tokens_of_a_decide(call: Call) -> None:
    """The article's two cells: same B, same document, A of 3196 and of 3205."""
    code, output, _ = call(
        "predict", "--pair", "3196:3259:3052", "--pair", "3205:3259:3052", *ARTICLE
    )

    assert code == 0
    assert "A 3196, B 3259, shared 3052, vLLM 0.29.0, block 1600: eligible" in output
    assert "A 3205, B 3259, shared 3052, vLLM 0.29.0, block 1600: not eligible" in output
    assert "restores blocks of A 0-3196; state of B#1 0-1600" in output
    assert "diverges" not in output


def test_a_range_shows_where_it_flips(call: Call) -> None:
    """One line a length; the threshold is two blocks."""
    _, output, _ = call("predict", "--range", "3198-3202:3259:3052", *ARTICLE)
    said = {
        line.split(",")[0]: line.rpartition(": ")[2]
        for line in output.splitlines()
        if line.startswith("A 3")
    }

    assert said == {
        "A 3198": "eligible",
        "A 3199": "eligible",
        "A 3200": "not eligible",
        "A 3201": "not eligible",
        "A 3202": "not eligible",
    }


def test_published_pairs_are_not_contradicted(call: Call) -> None:
    """What was measured as diverging is never predicted as not eligible.

    Both cells' cached tokens are exact; a pair that hangs on the unknown shared length says so.
    """
    published = json.loads((PROJECT / "tests/prediction/published-pairs.json").read_text())
    for pair in published["pairs"]:
        name = f"{pair['a_tokens']}:{pair['b_tokens']}"
        _, output, _ = call("predict", "--pair", name, "--json", *ARTICLE)
        (answer,) = json.loads(output)
        if pair["measured"] == "diverges":
            assert answer["eligible"] in ("eligible", "undetermined")
        if pair["name"] == "D1u":
            assert answer["eligible"] == "undetermined"
    for cell in published["cells_with_cached_tokens"]:
        name = f"{cell['a_tokens']}:{cell['b_tokens']}:{cell['shared_tokens']}"
        _, output, _ = call("predict", "--pair", name, "--json", *ARTICLE)
        (answer,) = json.loads(output)
        requests = answer["by_shared_tokens"][0]["cell"]["requests"]
        assert [request["cached_tokens"] for request in requests[1:]] == cell["cached_tokens"][:3]
        assert answer["eligible"] == (
            "eligible" if cell["measured"] == "diverges" else "not eligible"
        )


def test_chunk_lengths_come_with_their_remainders(call: Call) -> None:
    """So that a tile of a kernel can be recognised as the cause."""
    _, output, _ = call("predict", "--pair", "3196:3259:3052", "--json", *ARTICLE)
    first = json.loads(output)[0]["by_shared_tokens"][0]["chunks"][0]

    assert (first["request"], first["tokens"]) == ("A", 3196)
    assert (first["mod_4"], first["mod_128"]) == (0, 3196 % 128)


def test_releases_are_set_side_by_side(call: Call) -> None:
    """Which release changed the rule; one that nobody has read is refused."""
    code, output, _ = call(
        "predict", "--pair", "3196:3259:3052", "--versions", "0.26.0", "--versions", "0.30.0",
        *ARTICLE,
    )  # fmt: skip
    assert code == 0
    assert "vLLM 0.26.0" in output
    assert "vLLM 0.30.0" in output

    assert "0.26.0 → 0.30.0: rule v0.26 → v0.30, retention_tokens None → 0" in output

    _, output, _ = call("predict", "--versions", "0.26.0", "--json", *ARTICLE)
    ((named,),) = [answer["releases"] for answer in json.loads(output)]
    assert (named["rule"], named["function_sha256"]) == ("v0.26", None)

    code, _, errors = call("predict", "--pair", "1:2", "--versions", "0.99.0", *ARTICLE)
    assert code == 2
    assert "no rule of ours was checked against the source of 0.99.0" in errors


def test_an_experiment_is_predicted_cell_by_cell(call: Call) -> None:
    """Before anything is started."""
    code, output, _ = call("predict", "three-arm", "--project", PROJECT)

    assert code == 0
    assert "contaminated, hu-szamla-orgonagyar/a94/measured" in output
    assert "cached 32; chunks 32-64* 64-112" in output


def test_an_experiment_is_predicted_on_the_miniature_as_it_would_be_run(call: Call) -> None:
    """With the lengths that `run` takes when nothing else is said."""
    code, output, _ = call("predict", "three-arm", "--profile", "miniature", "--project", PROJECT)

    assert code == 0
    assert "contaminated, hu-szerzodes-raktarberlet/a60/measured" in output


def test_a_prediction_on_the_miniature_says_so(call: Call) -> None:
    """It is no vLLM, and its engine comes with this program."""
    pair = ("--pair", "62:80:40", "--project", PROJECT)
    _, output, _ = call("predict", "--profile", "miniature", *pair)

    assert "MINIATURE: not vLLM" in output.splitlines()[0]
    assert "its engine is not here" not in output


def test_a_profile_whose_model_is_not_here_predicts_all_the_same(call: Call) -> None:
    """Nothing of a model is needed; only the engine's own scheduler could not be asked."""
    pair = ("--pair", "3196:3259:3052", "--project", PROJECT)
    code, output, _ = call("predict", "--profile", "gb10-vllm-0.29.0", *pair)

    assert code == 0
    assert "its own scheduler was not asked" in output


def test_the_help_shows_the_forms_as_they_are_typed(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of them is taken for an emoji."""
    monkeypatch.setenv("COLUMNS", "200")
    _, output, _ = call("predict", "--help")

    assert "3196:3259:3052" in output
    assert "3190-3205:3259:3052" in output


def test_a_trace_counts_requests_of_mixed_origin(
    call: Call,
    tmp_path: Path,
) -> None:
    """A, then B twice under one salt, B alone under another: one request restores mixed origins."""
    shared = list(range(40))
    a, b = shared + list(range(1000, 1022)), shared + list(range(2000, 2040))
    lines = [(a, "x"), (b, "x"), (b, "x"), (b, "y"), (b, "y")]
    trace = tmp_path / "requests.jsonl"
    trace.write_text("".join(json.dumps({"prompt": p, "cache_salt": s}) + "\n" for p, s in lines))
    code, output, _ = call("predict", "--trace", trace, "--project", PROJECT)

    assert code == 0
    assert "5 requests, 2 restore cached tokens, 1 restore blocks or a state of mixed" in output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--pair", "12"], "--pair 12: must be A:B or A:B:SHARED"),
        (["--range", "1:2:3"], "--range 1:2:3: must be A1-A2:B:SHARED"),
        (["--pair", "10:20:15"], "--pair 10:20:15: A and B cannot share more"),
        (["--pair", "0:80:0"], "--pair 0:80:0: A and B have at least one token"),
        (["--pair", "62:0:0"], "--pair 62:0:0: A and B have at least one token"),
        (["--range", "0-9:80:0"], "--range 0-9:80:0: A and B have at least one token"),
        (["--range", "9-3:80:0"], "--range 9-3:80:0: A1 is above A2"),
        (["three-arm", "--block", "64"], "--block: goes with --pair"),
        (["three-arm", "--budget", "64"], "--budget: goes with --pair"),
        (["three-arm", "--no-speculative"], "--speculative: goes with --pair"),
        (["concurrency"], "predict concurrency: nothing is predicted of it"),
        (["--trace", "/no/such/file"], "cannot be read"),
        ([], "give an experiment, --pair, --range or --trace"),
    ],
)
def test_what_cannot_be_predicted_is_said(
    call: Call,
    arguments: list[str],
    told: str,
) -> None:
    """Exit 2, naming the flag and what to do."""
    code, _, errors = call("predict", *arguments, "--project", PROJECT)

    assert code == 2
    assert told in errors


def test_a_broken_line_of_a_trace_is_named(
    call: Call,
    tmp_path: Path,
) -> None:
    """With its number and key."""
    trace = tmp_path / "requests.jsonl"
    trace.write_text('{"prompt": [1]}\n{"prompt": "text"}\n')
    code, _, errors = call("predict", "--trace", trace, "--project", PROJECT)

    assert code == 2
    assert "line 2: prompt: " in errors


def test_nothing_is_predicted_of_a_suite(call: Call) -> None:
    """Its prompts have no token ids before the server has rendered them."""
    code, _, errors = call("predict", "extraction-suite", "--project", PROJECT)

    assert code == 2
    assert "is a suite" in errors
