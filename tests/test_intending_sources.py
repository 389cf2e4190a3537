"""Command line, variables and `/server_info`: every spelling, and every way of saying nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.intending.launch import Launch, tokens
from orchestrator.intending.rows import intent_rows
from orchestrator.serverlog.scan import scan
from tests.intents import by_setting, planned, rows_of, told


@pytest.mark.parametrize(
    ("argv", "setting", "asked"),
    [
        (["--max_model_len", "8K"], "max model length", 8192),
        (["--max-model-len=25.6k"], "max model length", 25600),
        (["--max-model-len", "-1"], "max model length", "auto"),
        (["--max-model-len", "4096", "--max-model-len", "8192"], "max model length", 8192),
        (["--enforce-eager", "--no-enforce-eager"], "eager", "off"),
        (["--no-enforce-eager", "--enforce-eager", "--no-enforce-eager"], "eager", "off"),
        (["--no-enforce-eager", "--enforce-eager"], "eager", "on"),
        (["-cc.cudagraph_mode=PIECEWISE"], "graph mode", "PIECEWISE"),
        (["-cc.cudagraph_mode", "full"], "graph mode", "FULL"),
        (["--compilation-config", '{"cudagraph_mode": 1}'], "graph mode", "PIECEWISE"),
        (["-cc", '{"cudagraph_mode": "FULL"}', "--enforce-eager"], "graph mode", "NONE"),
        (["-cc", '{"cudagraph_mode": "FULL"}', "-cc.mode=0"], "graph mode", None),
        (["-cc", "no JSON"], "graph mode", None),
        (["-cc", '{"cudagraph_mode": true}'], "graph mode", None),
        (["-sc", '{"method": "eagle3"}'], "speculative method", "eagle3"),
        (["--spec-method", "mtp"], "speculative method", "mtp"),
        (["--speculative-config.num_speculative_tokens", "3"], "speculative tokens", 3),
        (["--spec-tokens", "2"], "speculative tokens", 2),
        (["-ac.backend", "FLASHINFER"], "attention backend", "FLASHINFER"),
        (["--attention-backend=TRITON_ATTN"], "attention backend", "TRITON_ATTN"),
        (["--prefix-cache-retention-interval", "1600"], "retention interval", 1600),
        (["--prefix-cache-retention-interval", "None"], "retention interval", "dense"),
        (["--kv-cache-dtype", "fp8"], "kv cache dtype", "fp8"),
        (["--max-num-batched-tokens", "many"], "token budget", None),
        (["--served-model-name", "--enforce"], "eager", None),
    ],
)  # fmt: skip
def test_the_command_line_is_read_as_vllm_reads_it(
    argv: list[str], setting: str, asked: int | str | None
) -> None:
    """Spellings, short forms, objects and their parts; of several values the last one counts."""
    assert rows_of(planned(*argv))[setting].asked == asked


def test_variables_ask_too_and_a_flag_outranks_them() -> None:
    """The retention variable counts only where the flag is absent (engine/arg_utils.py)."""
    variables = {"VLLM_PREFIX_CACHE_RETENTION_INTERVAL": "64"}
    flag = ["--prefix-cache-retention-interval", "1600"]

    assert rows_of(planned(environment=variables))["retention interval"].asked == 64
    assert rows_of(planned(*flag, environment=variables))["retention interval"].asked == 1600


def page(**config: object) -> str:
    """A `/server_info` with these parts of the configuration."""
    return json.dumps({"vllm_config": config})


def test_names_of_one_thing_agree() -> None:
    """Older spellings of backends, and the methods that all resolve to `mtp`."""
    line = b"INFO 11-30 18:00:00 [cuda.py:1] Using Flash Attention backend on V1 engine.\n"
    arm = planned(
        "-sc",
        '{"method": "qwen3_next_mtp"}',
        environment={"VLLM_ATTENTION_BACKEND": "FLASH_ATTN_VLLM_V1"},
    )

    rows = rows_of(arm, log=line, info=page(speculative_config={"method": "mtp"}))

    assert rows["attention backend"].agreement == "agrees"
    assert rows["speculative method"].agreement == "agrees"


def test_a_choice_that_was_given_away_contradicts_nothing() -> None:
    """`auto` is no wish: whatever the engine takes is its own."""
    arm = planned("--kv-cache-dtype", "auto", "--max-model-len", "auto")
    config = page(model_config={"max_model_len": 4096}, cache_config={"cache_dtype": "fp8"})

    rows = rows_of(arm, info=config)

    for setting in ("kv cache dtype", "max model length"):
        assert (rows[setting].asked, rows[setting].agreement) == ("auto", "left to the engine")


def test_a_null_on_the_page_is_a_statement_and_absence_is_none() -> None:
    """No speculation and dense retention are said by `null`; a missing key says nothing."""
    arm = planned("--spec-method", "mtp", "--spec-tokens", "2")
    null = page(speculative_config=None, cache_config={"prefix_cache_retention_interval": None})

    rows = rows_of(arm, info=null)
    silent = rows_of(arm, info=page(cache_config={}))

    assert told(rows["speculative method"]) == {"server_info": "none"}
    assert told(rows["speculative tokens"]) == {"server_info": 0}
    assert rows["speculative tokens"].agreement == "contradicts"
    assert told(rows["retention interval"]) == {"server_info": "dense"}
    assert silent["speculative tokens"].agreement == "not said"
    assert silent["retention interval"].seen == ()


def test_the_backend_that_the_page_repeats_from_the_flag_is_no_outcome() -> None:
    """`attention_config.backend` is what was asked for; only the log tells what was chosen."""
    arm = planned("--attention-backend", "FLASHINFER")

    rows = rows_of(arm, info=page(attention_config={"backend": "FLASHINFER"}))

    assert rows["attention backend"].agreement == "not said"


def test_the_budget_is_what_a_step_may_really_schedule() -> None:
    """Drafts take their room out of it (config/vllm.py, _set_max_num_scheduled_tokens)."""
    arm = planned("--max-num-batched-tokens", "8192")
    scheduler = {"max_num_batched_tokens": 8192, "max_num_scheduled_tokens": 8184}

    rows = rows_of(arm, info=page(scheduler_config=scheduler))

    assert (told(rows["token budget"]), rows["token budget"].agreement) == (
        {"server_info": 8184},
        "contradicts",
    )


@pytest.mark.parametrize(
    "info",
    ["", "null", "[]", "Not Found", '{"vllm_config": 7}', '{"vllm_config": {"cache_config": 1}}',
     '{"vllm_config": {"cache_config": {"block_size": true}}}', "[" * 100_000],
)  # fmt: skip
def test_a_page_of_another_kind_says_nothing(info: str) -> None:
    """Not found, another version's, broken, or hostile: no sighting and no exception."""
    assert all(row.seen == () for row in rows_of(planned(), info=info).values())


@given(st.text(), st.lists(st.text()), st.text())
def test_any_text_gives_every_row(info: str, argv: list[str], log: str) -> None:
    """Whatever a server and a profile say, there is one row a setting and no exception."""
    scanned = scan([log.encode("utf-8", "replace")])

    rows = intent_rows(planned(*argv), log=scanned, cache=None, server_info=info)

    assert len(by_setting(rows)) == 12


@given(st.text())
def test_any_number_of_tokens_is_read_or_refused(text: str) -> None:
    """Never an exception: vLLM itself refuses to start with what is none."""
    assert tokens(text) is None or isinstance(tokens(text), int | str)


def test_a_dotted_key_below_a_plain_value_is_passed_over() -> None:
    """The server would refuse it; reading the rest goes on."""
    launch = Launch(["-cc.a=1", "-cc.a.b=2", "-cc.cudagraph_mode=FULL"], {})

    assert launch.config("--compilation-config", "cudagraph_mode") == "FULL"
