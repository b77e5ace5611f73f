"""Sequential colours that grow steadily in lightness, so that anyone can order them.

Made in OKLCH (Ottosson, 2020: lightness, chroma, hue) and written as sRGB. Nothing lies near the
background of the page and much stands out from it, so the dark theme has ramps of its own. Cores
go from pale yellow over teal to deep blue, links from sand to red: no pair that colour-blind
readers mix up differs in hue alone.
"""

from __future__ import annotations

from math import cos, radians, sin

STEPS = 32
"""Colours of cores."""
LINK_STEPS = 16
"""Colours, and widths, of links."""

Anchor = tuple[float, float, float]
RAMPS: dict[tuple[str, str], tuple[Anchor, ...]] = {  # lightness, chroma, hue in degrees
    ("c", "light"): ((0.955, 0.045, 108), (0.66, 0.105, 195), (0.30, 0.115, 275)),
    ("c", "dark"): ((0.29, 0.055, 275), (0.60, 0.105, 205), (0.945, 0.10, 108)),
    ("l", "light"): ((0.86, 0.04, 75), (0.66, 0.15, 50), (0.42, 0.16, 25)),
    ("l", "dark"): ((0.35, 0.03, 30), (0.56, 0.15, 33), (0.78, 0.16, 48)),
}
"""By family (`c` cores, `l` links) and theme: colours at the start, the middle and the end."""


def ramp(family: str, theme: str) -> list[str]:
    """The colours of a family in a theme, weakest first, as #rrggbb."""
    anchors = RAMPS[family, theme]
    steps = STEPS if family == "c" else LINK_STEPS
    return [_hex(*_between(anchors, step / (steps - 1))) for step in range(steps)]


def variables(theme: str) -> str:
    """CSS custom properties --c0 .. and --l0 .. of a theme."""
    return "".join(
        f"--{family}{step}:{colour};"
        for family in ("c", "l")
        for step, colour in enumerate(ramp(family, theme))
    )


def rgb(colour: str) -> tuple[int, int, int]:
    """The three bytes of #rrggbb."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def _between(anchors: tuple[Anchor, ...], at: float) -> Anchor:
    place = at * (len(anchors) - 1)
    left = min(int(place), len(anchors) - 2)
    share = place - left
    mixed = [a + (b - a) * share for a, b in zip(anchors[left], anchors[left + 1], strict=True)]
    return mixed[0], mixed[1], mixed[2]


def _hex(lightness: float, chroma: float, hue: float) -> str:
    """sRGB of an OKLCH colour; one that no screen shows loses chroma until it does."""
    linear = _linear(lightness, chroma, hue)
    while chroma > 0 and not all(-1e-6 <= value <= 1 + 1e-6 for value in linear):
        chroma -= 0.005
        linear = _linear(lightness, max(chroma, 0.0), hue)
    return "#" + "".join(f"{round(255 * _gamma(min(max(v, 0.0), 1.0))):02x}" for v in linear)


def _linear(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _gamma(value: float) -> float:
    """The transfer function of sRGB."""
    low = 12.92 * value
    return low if value <= 0.0031308 else 1.055 * float(value ** (1 / 2.4)) - 0.055
