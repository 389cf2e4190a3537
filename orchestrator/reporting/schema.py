"""The JSON Schema of `verdicts.json`, as published in `docs/schemas/`."""

import json

from orchestrator.model.verdict import RunVerdict

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def verdict_schema() -> str:
    """The schema of a stored `RunVerdict`, as indented JSON.

    A field that has a default may be absent: files that older releases wrote lack it.
    """
    schema = {"$schema": DIALECT, "$id": "urn:vllm-arms:verdicts:1"}
    schema |= RunVerdict.model_json_schema(mode="validation")
    return json.dumps(schema, indent=2) + "\n"
