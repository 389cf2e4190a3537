"""What a server's start may do to its machine, and what it must give back."""

from pydantic import Field

from orchestrator.model.record import Record


class HostLimits(Record):
    """Of a launch profile: memory that is needed, kept free, and expected back."""

    memory_needed_bytes: int | None = Field(default=None, gt=0)
    """MemAvailable before a start, or the server does not fit; asked by `doctor`. Absent: it is
    not known."""

    memory_floor_bytes: int | None = Field(default=None, gt=0)
    """MemAvailable below which the server is killed, before the machine freezes. Absent: never."""

    memory_back_within_bytes: int = Field(default=512 * 2**20, ge=0)
    """How much less than before the start counts as all of it come back. 512 MiB: the article's
    readings of one serving server lay within 45 MB of each other; ten times that."""

    memory_back_timeout_s: float = Field(default=10.0, ge=0)
    """From the server's end. The kernel has a dead process's memory back at once, and so it is
    mostly somebody else who holds more than before; a GPU's driver takes longer."""

    drop_page_cache: bool = False
    """Before each start; needs root. Where GPU and processor share one memory, cached files are
    not free to the GPU's driver."""
