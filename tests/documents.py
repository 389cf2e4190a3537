"""Documents that a campaign or a benchmark writes of itself, from a template beside its program."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def rendered(template: Path, **values: object) -> str:
    """Markdown, from our own texts; a value that is missing is an error."""
    templates = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - Markdown, from our own texts
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    return templates.get_template(template.name).render(**values)
