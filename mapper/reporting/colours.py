"""Sequential colours of steadily changing lightness, so that all readers can order them.

Defined in OKLCH (Ottosson, 2020: lightness, chroma, hue) and written as sRGB. Low values are close
to the background of the page and high ones stand out, so the dark theme has separate ramps. Cores
go from pale yellow over teal to deep blue, links from sand to red: no two colours that colour-blind
readers confuse differ in hue alone.
"""

from __future__ import annotations

from math import cos, radians, sin

STEPS = 32
"""Number of colours of cores."""
LINK_STEPS = 16
"""Number of colours and widths of links."""

Anchor = tuple[float, float, float]
RAMPS: dict[tuple[str, str], tuple[Anchor, ...]] = {  # lightness, chroma, hue in degrees
    ("c", "light"): ((0.955, 0.045, 108), (0.66, 0.105, 195), (0.30, 0.115, 275)),
    ("c", "dark"): ((0.29, 0.055, 275), (0.60, 0.105, 205), (0.945, 0.10, 108)),
    ("l", "light"): ((0.86, 0.04, 75), (0.66, 0.15, 50), (0.42, 0.16, 25)),
    ("l", "dark"): ((0.35, 0.03, 30), (0.56, 0.15, 33), (0.78, 0.16, 48)),
}
"""Colours at the start, middle and end, by family (`c` cores, `l` links) and theme."""


MARKS = 12
"""Number of colours of populations that differ in hue and lightness."""
_HUES = (255, 55, 160, 25, 305, 85, 345, 120, 215, 275, 100, 145)
_LIGHTNESS = {
    "light": (0.56, 0.63, 0.56, 0.52, 0.50, 0.46, 0.60, 0.58, 0.60, 0.36, 0.62, 0.42),
    "dark": (0.72, 0.78, 0.74, 0.68, 0.66, 0.62, 0.80, 0.84, 0.80, 0.58, 0.88, 0.64),
}


def marks(count: int, theme: str) -> list[str]:
    """Return the colours of populations as #rrggbb.

    Few populations get hues that are far apart. More than `MARKS` get the hues of the rainbow in
    order, so that neighbouring layers have similar colours, with alternating lightness.
    """
    lightness = _LIGHTNESS[theme]
    if count <= MARKS:
        return [_hex(lightness[at], 0.125, _HUES[at]) for at in range(count)]
    dark, light = (0.45, 0.60) if theme == "light" else (0.66, 0.82)
    return [
        _hex(light if at % 2 else dark, 0.13, (265 - 300 * at / (count - 1)) % 360)
        for at in range(count)
    ]


def ramp(family: str, theme: str) -> list[str]:
    """Return the colours of a family in a theme, weakest first, as #rrggbb."""
    anchors = RAMPS[family, theme]
    steps = STEPS if family == "c" else LINK_STEPS
    return [_hex(*_between(anchors, step / (steps - 1))) for step in range(steps)]


def variables(theme: str, populations: int = 0) -> str:
    """Return the CSS custom properties --c0 .., --l0 .. and --p0 .. of a theme."""
    families = {family: ramp(family, theme) for family in ("c", "l")}
    families["p"] = marks(populations, theme)
    return "".join(
        f"--{family}{step}:{colour};"
        for family, colours in families.items()
        for step, colour in enumerate(colours)
    )


def rgb(colour: str) -> tuple[int, int, int]:
    """Return the three bytes of #rrggbb."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def _between(anchors: tuple[Anchor, ...], at: float) -> Anchor:
    place = at * (len(anchors) - 1)
    left = min(int(place), len(anchors) - 2)
    share = place - left
    mixed = [a + (b - a) * share for a, b in zip(anchors[left], anchors[left + 1], strict=True)]
    return mixed[0], mixed[1], mixed[2]


def _hex(lightness: float, chroma: float, hue: float) -> str:
    """Convert OKLCH to sRGB; reduce the chroma of colours outside sRGB."""
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
    """Apply the transfer function of sRGB."""
    low = 12.92 * value
    return low if value <= 0.0031308 else 1.055 * float(value ** (1 / 2.4)) - 0.055
