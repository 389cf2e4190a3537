"""What must not leave a machine, found in texts of any machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.scrubbing import PLACES, SECRETS, Scrubber

PUBLISHED = (*SECRETS, *PLACES)

HF_SHAPED = "hf_" + "aB" * 17
"""The shape of a Hugging Face token; it opens nothing."""


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("HF_TOKEN=s3cret vllm serve", "HF_TOKEN=<secret> vllm serve"),
        ('"VLLM_API_KEY": "s3cret",', '"VLLM_API_KEY": "<secret>",'),
        ("--api-key s3cret --port 1", "--api-key <secret> --port 1"),
        ("--api-key=s3cret", "--api-key=<secret>"),
        ('"--api-key",\n  "s3cret"', '"--api-key",\n  "<secret>"'),
        (f"login with {HF_SHAPED}", "login with <secret>"),
        ("Authorization: Bearer abcdefghijkl123", "Authorization: Bearer <secret>"),
        ("http://user:pass@box/x", "http://<secret>@box/x"),
        ("/home/joe/models/m", "<home>/models/m"),
        ("/Users/joe/m", "<home>/m"),
        ('"/root" /root/x', '"<home>" <home>/x'),
    ],
)
def test_secrets_and_home_folders_go(text: str, cleaned: str) -> None:
    """In commands, in JSON, in logs; what stands around them stays."""
    assert Scrubber({}).clean(text) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("/opt/vllm/venv/bin/python -m x", "<path>/python -m x"),
        ("P=/a/b/c:/d/e/f", "P=<path>/c:<path>/f"),
        ("from 10.1.2.3:8000", "from <address>:8000"),
        ("by joe@box.example", "by <mail>"),
    ],
)
def test_folders_addresses_and_mail_go_from_a_published_text(text: str, cleaned: str) -> None:
    """The last part of a path stays: it tells an interpreter from a model."""
    assert Scrubber({}, PUBLISHED).clean(text) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=16 token_id:5 block_size_tokens: 32 prompt_tokens=1",
        "POST /v1/chat/completions on 127.0.0.1, 0.0.0.0",
        "https://github.com/vllm-project/vllm/pull/54076",
        "driver 580.173.02, vLLM 0.29.0, --model /model --tokenizer /tok",
        "vllm/v1/core/sched/scheduler.py",
        '{"API_KEY": null, "tokenizer_sample": "/dev/shm/x/y"}'.replace("null", '""'),
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """A scrubbed comment that hides the flags would prove nothing."""
    assert Scrubber({}, PUBLISHED).clean(text) == text


def test_known_texts_go_longest_first_and_are_counted() -> None:
    """A project in a home folder is the project."""
    scrubber = Scrubber({"/srv": "<home>", "/srv/project": "<project>", "box-7": "<host>"})

    assert scrubber.clean("/srv/project/x /srv/y on box-7") == "<project>/x <home>/y on <host>"
    assert scrubber.counts == {"<home>": 1, "<project>": 1, "<host>": 1, "<secret>": 0}


@given(st.text())
def test_a_cleaned_text_has_nothing_left_to_clean(text: str) -> None:
    """Cleaning twice is cleaning once, whatever the text."""
    once = Scrubber({}, PUBLISHED).clean(text)

    assert Scrubber({}, PUBLISHED).clean(once) == once


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("on vm, at vm:8000, (vm)", "on <host>, at <host>:8000, (<host>)"),
        ('"first\\nvm ended"', '"first\\n<host> ended"'),
        ("denavmér Bérl, avm, vms, vm_1", "denavmér Bérl, avm, vms, vm_1"),
        ("/box/project2", "<project>2"),
    ],
)
def test_a_name_goes_as_a_word_and_a_path_everywhere(text: str, cleaned: str) -> None:
    """What a model wrote is evidence, and holds the name of somebody's host by chance."""
    assert Scrubber({"vm": "<host>", "/box/project": "<project>"}).clean(text) == cleaned
