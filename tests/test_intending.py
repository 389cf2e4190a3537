"""Intent against outcome, in the words of real servers; and the gate that comes of it."""

from orchestrator.intending.rows import defining_property_findings, intent_rows
from orchestrator.metrics import read_cache_config
from orchestrator.serverlog.scan import scan
from tests.intents import FIXTURES, NO_LOG, RECORDED, by_setting, planned, recorded, rows_of, told


def test_a_start_that_did_as_asked_agrees_in_every_setting_that_was_asked_for() -> None:
    """A real run: what was not asked for stands there with its outcome, and is no quarrel."""
    rows = recorded("caching-on", caching="on")

    assert {name: (row.asked, row.agreement) for name, row in rows.items()} == {
        "prefix caching": ("on", "agrees"),
        "mamba cache mode": (None, "left to the engine"),
        "block size": (32, "agrees"),
        "attention backend": (None, "left to the engine"),
        "speculative method": ("mtp", "agrees"),
        "speculative tokens": (2, "agrees"),
        "retention interval": (None, "left to the engine"),
        "eager": ("on", "agrees"),
        "graph mode": ("NONE", "agrees"),
        "max model length": (8192, "agrees"),
        "token budget": (4096, "agrees"),
        "kv cache dtype": (None, "left to the engine"),
    }
    assert told(rows["mamba cache mode"]) == dict.fromkeys(
        ("log", "metrics", "server_info"), "align"
    )
    assert told(rows["retention interval"]) == {"log": "dense", "server_info": "dense"}
    assert told(rows["speculative tokens"]) == {"log": 2, "server_info": 2}
    assert told(rows["token budget"]) == {"log": 4096, "server_info": 4096}
    assert told(rows["kv cache dtype"]) == dict.fromkeys(("log", "metrics", "server_info"), "auto")
    assert defining_property_findings(tuple(rows.values())) == ()


def test_caching_off_also_turns_the_mamba_cache_mode_off() -> None:
    """Two changes behind one flag: the sources that say so are the metrics and the page."""
    rows = recorded("caching-off", caching="off")

    assert rows["prefix caching"].agreement == "agrees"
    assert set(told(rows["prefix caching"]).values()) == {"off"}
    assert told(rows["mamba cache mode"]) == {"metrics": "none", "server_info": "none"}
    assert defining_property_findings(tuple(rows.values())) == ()


def test_what_came_out_otherwise_is_marked_with_every_source() -> None:
    """A real start that was asked for align without caching, graphs without compilation, and more.

    Its "non-default args" line repeats `align`, which no row takes for an outcome.
    """
    rows = recorded("not-as-asked", caching="off")

    assert "'mamba_cache_mode': 'align'" in (RECORDED / "not-as-asked/start.log").read_text()
    modes = {"log": "none", "metrics": "none", "server_info": "none"}
    assert (rows["mamba cache mode"].asked, told(rows["mamba cache mode"])) == ("align", modes)
    assert (rows["graph mode"].asked, told(rows["graph mode"])) == (
        "PIECEWISE",
        {"log": "NONE", "server_info": "NONE"},
    )
    contradicting = {name for name, row in rows.items() if row.agreement == "contradicts"}
    assert contradicting == {"mamba cache mode", "graph mode", "block size"}
    assert (rows["max model length"].asked, rows["max model length"].agreement) == (4000, "agrees")
    assert (rows["retention interval"].asked, told(rows["retention interval"])) == (
        0,
        {"metrics": 0, "server_info": 0},
    )
    assert (rows["attention backend"].asked, rows["attention backend"].agreement) == (
        "TRITON_ATTN",
        "not said",
    )


def test_an_arm_on_another_grid_than_it_declares_voids_its_start() -> None:
    """The engine chose 128 tokens where 32 were declared: rule 6, with the sources."""
    rows = recorded("not-as-asked", caching="off")

    findings = defining_property_findings(tuple(rows.values()))

    assert [(f.rule, f.scope, f.summary) for f in findings] == [
        (6, "start", "block size should be 32; metrics: 128, server_info: 128")
    ]


def test_caching_that_is_not_as_the_arm_says_voids_its_start() -> None:
    """The log of a server with caching, for an arm that is defined by having none."""
    rows = recorded("caching-on", caching="off")

    findings = defining_property_findings(tuple(rows.values()))

    assert [(f.rule, f.scope) for f in findings] == [(6, "start")]
    assert (
        findings[0].summary == "prefix caching should be off; log: on, metrics: on, server_info: on"
    )


def test_one_contradicting_source_outweighs_the_others() -> None:
    """The engine's process turned caching off late; the API server's copies still say on."""
    late = (
        b"(EngineCore pid=9) INFO 11-30 18:00:00 [core.py:281] "
        b"Disabling prefix caching: model has non-causal attention layers.\n"  # v1/engine/core.py
    )
    log = (RECORDED / "caching-on/start.log").read_bytes() + late

    rows = recorded("caching-on", caching="on", log=scan([log]))

    assert told(rows["prefix caching"]) == {"log": "off", "metrics": "on", "server_info": "on"}
    assert rows["prefix caching"].agreement == "contradicts"


def test_a_silent_server_is_never_taken_to_agree() -> None:
    """Without any source what was asked for is `not said`; caching must be said."""
    arm = planned("--enforce-eager", "--max-model-len", "8192")

    rows = rows_of(arm)

    assert {row.agreement for row in rows.values()} == {"not said", "left to the engine"}
    assert rows["max model length"].agreement == "not said"
    findings = defining_property_findings(tuple(rows.values()))
    assert [(f.rule, f.scope) for f in findings] == [(6, "start"), (12, "remark")]


def test_the_text_form_of_the_page_says_what_the_engine_line_says() -> None:
    """The same start, asked in the other form: fewer settings, the same values."""
    whole = recorded("not-as-asked", caching="off")
    rows = recorded(
        "not-as-asked", caching="off", info="server-info-text.json", log=NO_LOG, cache=None
    )

    said = {name: told(row)["server_info"] for name, row in rows.items() if row.seen}
    assert said == {
        "prefix caching": "off", "eager": "off", "graph mode": "NONE",
        "max model length": 4000, "kv cache dtype": "auto",
    }  # fmt: skip
    assert all(told(whole[name])["server_info"] == value for name, value in said.items())


def test_a_release_without_the_page_and_with_a_chosen_grid_is_read_from_log_and_metrics() -> None:
    """0.26.0 on an H200: the grid is the engine's own choice, and declared as such."""
    arm = planned("serve", "--enforce-eager", "--max-model-len", "8192", block=288)
    log = scan([(FIXTURES / "serverlog/logs/0.26.0-h200-caching-on-mtp.log").read_bytes()])
    cache = read_cache_config((FIXTURES / "metrics/0.26.0-h200-caching-on-mtp.metrics").read_text())

    rows = by_setting(intent_rows(arm, log=log, cache=cache, server_info=None))

    assert told(rows["block size"]) == {"log": 288, "metrics": 288}
    assert told(rows["attention backend"]) == {"log": "FLASH_ATTN"}
    assert told(rows["speculative method"]) == {"log": "mtp"}
    assert defining_property_findings(tuple(rows.values())) == ()
