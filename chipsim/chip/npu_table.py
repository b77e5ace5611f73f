"""The table ``[npu]`` of a chip file: a preset with overrides, or all parameters."""

from __future__ import annotations

from dataclasses import asdict, fields

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.chip.tables import checked_table, entry_line, meanings
from chipsim.chip.toml_text import toml_string
from chipsim.errors import ChipError

PRESET = "preset"
_FIELDS = tuple(field.name for field in fields(NpuShape))


def npu_from_table(values: object, chip: str) -> NpuShape:
    """Return the NPU described by a table: parsed from a file or from `NpuShape.to_json`.

    chip : name of the chip: default name of a shape that is not a preset

    Raises `ChipError` naming the faulty key.
    """
    asked = " with preset, or all parameters"
    given = dict(checked_table("npu", values, (PRESET, *_FIELDS), asked))
    preset = given.pop(PRESET, None)
    if preset is None:
        for key in _FIELDS[1:]:
            if key not in given:
                raise ChipError(
                    f"npu: key {key!r} is missing; add it, or a preset with defaults: "
                    f"preset = one of {', '.join(NPU_SHAPES)}"
                )
        return NpuShape(**{"name": chip, **given})
    if not isinstance(preset, str) or preset not in NPU_SHAPES:
        raise ChipError(f"npu: preset is {preset!r}; give one of {', '.join(NPU_SHAPES)}")
    base = asdict(NPU_SHAPES[preset])
    changed = any(repr(base[key]) != repr(value) for key, value in given.items())
    return NpuShape(**{**base, "name": chip if changed else preset, **given})


def npu_lines(npu: NpuShape) -> list[str]:
    """Return the table as lines of TOML; parameters of a preset are comments to be changed."""
    found = npu.to_json()
    preset = found.get(PRESET)
    lines = ["", "[npu]"]
    if preset is not None:
        lines += [f'preset = "{preset}"  # one of {", ".join(NPU_SHAPES)}; keys below override it']
    else:
        lines += [f"# all parameters; or preset = one of {', '.join(NPU_SHAPES)}, and overrides"]
    for key, meaning in meanings(NpuShape).items():
        if preset is not None and key == "name":
            continue
        entry = f"{key} = {_value(getattr(npu, key))}"
        lines.append(entry_line(entry, meaning, preset is None))
    return lines


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return toml_string(value) if isinstance(value, str) else str(value)
