"""The JSON Schema of `verdicts.json`, as published in `docs/schemas/`.

`python -m orchestrator.reporting.schema FILE` writes it.
"""

import json
import sys
from pathlib import Path

from orchestrator.model.verdict import RunVerdict

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def verdict_schema() -> str:
    """The schema of a stored `RunVerdict`, as indented JSON.

    A field that has a default may be absent: files that older releases wrote lack it. `format`
    may not, since it says which schema a file is to be held against.
    """
    schema = RunVerdict.model_json_schema(mode="validation")
    schema["required"] = ["format", *schema["required"]]
    named = {"$schema": _DIALECT, "$id": "urn:vllm-arms:verdicts:1"}
    return json.dumps(named | schema, indent=2) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(verdict_schema(), encoding="utf-8")
