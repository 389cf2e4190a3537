"""`/server_info` → what the API server's copy of the configuration says, in either of its forms.

With `config_format=json` it is the whole configuration. A release that does not know the parameter
gives the text form, as does one that is not asked for the other: the very line that the engine logs
when it starts, so the log's own rules read it. Sources: vLLM #16572 (0.9, text); of 0.29.0
`entrypoints/serve/dev/server_info/api_router.py` and `config/vllm.py`, VllmConfig.__str__.
"""

import json

from orchestrator.serverlog.scan import scan

_ABSENT = object()
_ENGINE_LINE = "INFO 01-01 00:00:00 [core.py:1] Initializing a V1 LLM engine (v?) with config: "


class SelfDescription:
    """Any text at all; what it lacks, or says in another form, is not seen."""

    def __init__(self, page: str | None) -> None:
        config = _vllm_config(page)
        text = config if isinstance(config, str) else ""

        self.as_log = scan([(_ENGINE_LINE + text).encode("utf-8", "replace")])
        """What the text form says; nothing of interest when the page has the other one."""

        self._config = config

    def count(self, path: str) -> int | None:
        """The whole number at a path such as `cache_config.block_size`; `None` without one."""
        found = self._find(path)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def word(self, path: str) -> str | None:
        """The text there; `None` without one."""
        found = self._find(path)
        return found if isinstance(found, str) else None

    def switch(self, path: str) -> str | None:
        """`on` or `off` for true and false there; `None` without either."""
        found = self._find(path)
        return ("on" if found else "off") if isinstance(found, bool) else None

    def numbers(self, path: str) -> tuple[int, ...] | None:
        """A number, or a list of them; `None` when there is neither."""
        found = self._find(path)
        listed = found if isinstance(found, list) else [found]
        whole = tuple(n for n in listed if isinstance(n, int) and not isinstance(n, bool))
        return whole if len(whole) == len(listed) else None

    def is_null(self, path: str) -> bool:
        """Whether it says `null` there, which is a statement, where absence is none."""
        return self._find(path) is None

    def _find(self, path: str) -> object:
        found: object = self._config
        for key in path.split("."):
            found = found.get(key, _ABSENT) if isinstance(found, dict) else _ABSENT
        return found


def _vllm_config(page: str | None) -> object:
    try:
        whole = json.loads(page or "")
    except (ValueError, RecursionError):  # no JSON; or nested deeper than any configuration
        return _ABSENT
    return whole.get("vllm_config", _ABSENT) if isinstance(whole, dict) else _ABSENT
