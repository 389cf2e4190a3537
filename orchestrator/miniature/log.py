"""Log lines in vLLM's form, on standard output.

    (EngineCore pid=25035) INFO 11-30 18:38:00 [core.py:368] init engine (profile, … took 0.47 s

Two names are used as vLLM's two processes are; here both are this process.
"""

import logging
import os
import sys
import traceback
from types import TracebackType

log_api = logging.getLogger("miniature.APIServer")
log_core = logging.getLogger("miniature.EngineCore")


class _Formatter(logging.Formatter):
    """Puts the same beginning before each line of a message."""

    def __init__(self) -> None:
        super().__init__(
            "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] ", datefmt="%m-%d %H:%M:%S"
        )

    def format(self, record: logging.LogRecord) -> str:
        record.asctime = self.formatTime(record, self.datefmt)
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        process = record.name.rpartition(".")[2]
        start = _process(process) + self.formatMessage(record)
        return "\n".join(start + line for line in message.split("\n"))


def set_up() -> None:
    """Send everything to standard output, uncaught exceptions included."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Formatter())
    root = logging.getLogger("miniature")
    root.setLevel(logging.INFO)
    root.propagate = False
    root.handlers = [handler]
    sys.excepthook = _write_uncaught


def uvicorn_config() -> dict[str, object]:
    """The HTTP library's lines, as vLLM's API server has them."""
    before = _process("APIServer")
    formatters = {
        "default": ("uvicorn.logging.DefaultFormatter", "%(message)s"),
        "access": (
            "uvicorn.logging.AccessFormatter",
            '%(client_addr)s - "%(request_line)s" %(status_code)s',
        ),
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            name: {"()": kind, "fmt": f"{before}%(levelprefix)s {text}", "use_colors": False}
            for name, (kind, text) in formatters.items()
        },
        "handlers": {
            name: {
                "class": "logging.StreamHandler",
                "formatter": name,
                "stream": "ext://sys.stdout",
            }
            for name in formatters
        },
        "loggers": {
            "uvicorn": {"handlers": ["default"], "level": "INFO", "propagate": False},
            "uvicorn.access": {"handlers": ["access"], "level": "INFO", "propagate": False},
        },
    }


def write_line(text: str) -> None:
    """Write a line that no logger makes."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _process(name: str) -> str:
    return f"({name} pid={os.getpid()}) "


def _write_uncaught(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    """A dying process writes its traceback past every logger, behind its name."""
    text = "".join(traceback.format_exception(kind, error, where)).rstrip("\n")
    for line in text.split("\n"):
        write_line(_process("APIServer") + line)
