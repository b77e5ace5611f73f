"""Lists of seeds as text: `1..8`, `1,4,9`, `1..3,7`."""

from __future__ import annotations

from dataclasses import replace

from mapper.errors import MapperError, UsageError, shown
from mapper.portfolio.run import describe_request
from mapper.portfolio.runner import Many, RunJob
from mapper.session import MapRequest
from mapper.settings import SETTINGS

MOST_RUNS = 100_000
FORMS = "give a range as 1..8 or a list as 1,4,9"


def parse_seeds(text: str) -> list[int]:
    """Parse seeds in the order given; raises `UsageError` for invalid or repeated seeds."""
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = (word.strip() for word in part.partition(".."))
        if not dots:
            found.append(_seed(first, text))
            continue
        low, high = _seed(first, text), _seed(last, text)
        if high < low:
            raise UsageError(f"seeds {shown(text)}: {low}..{high} is empty; give {high}..{low}")
        if high - low >= MOST_RUNS:
            raise UsageError(f"seeds {shown(text)}: more than {MOST_RUNS:,} runs; give fewer")
        found += range(low, high + 1)
    require_once(found)
    return found


def seed_jobs(request: MapRequest, seeds: list[int]) -> Many:
    """Return the same run for each seed; raises `MapperError` if the network cannot be read."""
    try:
        common = describe_request(request)
    except OSError as error:
        raise MapperError(f"{request.source.network}: cannot read: {error.strerror}") from error
    del common["seed"]
    jobs = [
        RunJob(
            f"seed-{seed}",
            {"seed": seed},
            replace(request, settings=replace(request.settings, seed=seed)),
        )
        for seed in seeds
    ]
    return Many(common, jobs)


def require_once(seeds: list[int]) -> None:
    """Raise `UsageError` if a seed is repeated or the list is empty."""
    if not seeds:
        raise UsageError(f"no seeds given; {FORMS}")
    if len(seeds) > MOST_RUNS:
        raise UsageError(f"more than {MOST_RUNS:,} seeds; give fewer")
    known: set[int] = set()
    for seed in seeds:
        if seed in known:
            raise UsageError(f"seed {seed} is repeated; give it once")
        known.add(seed)


def _seed(word: str, text: str) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise UsageError(f"seeds {shown(text)}: {shown(word)} is not a whole number; {FORMS}")
    if len(word.lstrip("0")) > 19:
        raise UsageError(f"seeds {shown(text)}: {shown(word)} is too large; give less than 2^63")
    return int(SETTINGS["seed"].check(int(word)))
