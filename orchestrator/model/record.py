"""The base of every type that is read from a file or written to one."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Frozen, strict, and without unknown keys: a misspelt key is an error, not a default."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,  # "8000" is no integer
        allow_inf_nan=False,  # JSON would turn NaN into null and lose it
    )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a record back from the JSON it was stored as.

        Raises:
            pydantic.ValidationError: The text is no JSON, or not of this type.
        """
        return cls.model_validate_json(text)
