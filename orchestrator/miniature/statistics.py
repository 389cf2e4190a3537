"""The two lines that a vLLM server writes every ten seconds while it has something to do.

Source: vLLM 0.29.0, v1/metrics/loggers.py (`LoggingStatLogger`), v1/spec_decode/metrics.py.
"""

from dataclasses import dataclass

from .engine import Engine
from .log import log_api

INTERVAL_S = 10.0


@dataclass(frozen=True, slots=True)
class _Totals:
    prompt: int
    generated: int
    queried: int
    hit: int
    drafts: int
    proposed: int
    accepted: tuple[int, ...]


class Statistics:
    """Remembers the totals of the last line."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last = self._totals()
        self._idle = True

    def write(self) -> None:
        """Write the lines; nothing when there was nothing to do since the last but one."""
        now, last = self._totals(), self._last
        self._last = now
        scheduler = self._engine.scheduler
        idle = now == last and not scheduler.running and not scheduler.waiting
        if idle and self._idle:
            return
        self._idle = idle
        preempted = f"Preemptions: {scheduler.preemptions}, " if scheduler.preemptions else ""
        log_api.info(
            "Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f "
            "tokens/s, Running: %d reqs, Waiting: %d reqs, %sGPU KV cache usage: %.1f%%, Prefix "
            "cache hit rate: %.1f%%",
            (now.prompt - last.prompt) / INTERVAL_S,
            (now.generated - last.generated) / INTERVAL_S,
            len(scheduler.running),
            len(scheduler.waiting),
            preempted,
            scheduler.cache.usage * 100,
            100 * now.hit / now.queried if now.queried else 0.0,
        )
        if now.drafts > last.drafts:
            self._write_drafts(now, last)

    def _write_drafts(self, now: _Totals, last: _Totals) -> None:
        drafts, proposed = now.drafts - last.drafts, now.proposed - last.proposed
        by_position = [
            after - before for after, before in zip(now.accepted, last.accepted, strict=True)
        ]
        accepted = sum(by_position)
        log_api.info(
            "SpecDecoding metrics: Mean acceptance length: %.2f, Accepted throughput: %.2f "
            "tokens/s, Drafted throughput: %.2f tokens/s, Accepted: %d tokens, Drafted: %d tokens, "
            "Per-position acceptance rate: %s, Avg Draft acceptance rate: %.1f%%",
            1 + accepted / drafts,
            accepted / INTERVAL_S,
            proposed / INTERVAL_S,
            accepted,
            proposed,
            ", ".join(f"{count / drafts:.3f}" for count in by_position),
            100 * accepted / proposed,
        )

    def _totals(self) -> _Totals:
        engine, counts = self._engine, self._engine.draft_counts
        return _Totals(
            prompt=engine.computed_prompt_tokens,
            generated=engine.generated_tokens,
            queried=engine.scheduler.queried_tokens,
            hit=engine.scheduler.hit_tokens,
            drafts=counts.steps,
            proposed=counts.proposed,
            accepted=tuple(counts.accepted_by_position),
        )
