"""The exported Verilog of a `tiny` NPU core in Verilator, loaded as docs/npu.md describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hw.npu.core_run import Ints, Link
from tests.hw.verilator import built, done

BENCH = r"""
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <string>
#include <type_traits>
#include <vector>
#include "Vtop.h"
#include "Vtop___024root.h"

template <class T> void show(const T& word) {
    if constexpr (std::is_integral_v<T>) {
        std::printf(" %llx", (unsigned long long)word);
    } else {
        std::printf(" ");
        for (size_t i = sizeof(T) / 4; i-- > 0;) std::printf("%08x", word[i]);
    }
}

template <class T> unsigned long long bits(const T& word, int low, int count) {
    unsigned long long found = 0;
    for (int i = 0; i < count; ++i)
        found |= (unsigned long long)(word[(low + i) / 32] >> (low + i) % 32 & 1) << i;
    return found;
}

int main() {
    VerilatedContext context;
    Vtop core{&context};
    const auto tick = [&] {
        core.clk = 1;
        core.eval();
        core.clk = 0;
        core.eval();
    };
    const auto put = [&](const std::string& hex) {
        core.flit_valid = 1;
        for (int i = 0; i < 3; ++i) {
            const long end = long(hex.size()) - 8 * i, begin = end > 8 ? end - 8 : 0;
            core.flit_payload[i] =
                end > 0 ? std::stoul(hex.substr(begin, end - begin), nullptr, 16) : 0;
        }
    };
    core.rst = 1;
    core.start = core.flit_valid = 0;
    READY
    for (int i = 0; i < 4; ++i) tick();
    core.rst = 0;
    std::string kind;
    std::vector<std::string> host;
    long latency = 0, rate = 1, words = 0, most = 0;
    while (std::cin >> kind && kind != "run") {
        std::string value;
        std::cin >> value;
        if (kind == "flit") {
            put(value);
            tick();
        } else if (kind == "host") {
            host.push_back(value);
        } else if (kind == "latency") {
            latency = std::stol(value);
        } else if (kind == "rate") {
            rate = std::stol(value);
        } else if (kind == "odd") {
            core.odd = std::stoi(value);
        } else if (kind == "most") {
            most = std::stol(value);
        }
    }
    core.flit_valid = 0;
    core.first = 0;
    core.start = 1;
    tick();
    core.start = 0;
    std::deque<std::pair<long, std::string>> answers;
    long cycle = 0, available = 0;
    bool busy = true;
    for (; busy || !answers.empty(); ++cycle) {
        if (cycle > most) {
            std::fprintf(stderr, "the core is busy after %ld cycles\n", most);
            return 1;
        }
        core.flit_valid = 0;
        if (!answers.empty() && (!busy || answers.front().first <= cycle)) {
            put(answers.front().second);
            answers.pop_front();
        }
        core.eval();
        busy = core.busy;
        std::printf("cycle %d %d\n", int(core.started), int(core.ended));
        const auto sent = [&](int number, bool valid, const auto& flit) {
            if (!valid) return;
            busy = true;
            std::printf("sent");
            show(flit);
            std::printf("\n");
            words = bits(flit, 23, 16);
            if (number != 5 || !words) return;
            const long first = bits(flit, 55, 16) * PARTS, count = words * PARTS;
            const long begin = std::max(cycle - 1 + latency, available);
            available = begin + count * rate;
            for (long part = 0; part < count; ++part)
                answers.emplace_back(begin + 1 + (part + 1) * rate, host.at(first + part));
        };
        SENT
        tick();
    }
    MEMORIES
    core.final();
}
"""
SOURCES, PARTS = 6, 4
"""Sources of flits; flits of a weight word."""
FLIT = (8, 8, 3, 4, 16, 32)
"""Bits of x, y, kind, stream, address, data."""
WEIGHTS, TOKEN, TO_HOST, REQUEST, LOAD = 2, 3, 4, 5, 6
LOADED = ("FM", "WM", "PM", "UM", "IM", "HM")
STORED = {
    **{f"FM{bank}": (f"maps__DOT__bank{bank}", np.int8) for bank in range(4)},
    "INP": ("inp", np.int8), "ACC": ("acc", np.int32), "OUT": ("out", np.int8),
    "WM": ("wm", np.int8), "PM": ("pm", np.int32), "UM": ("um", np.int32), "HM": ("hm", np.int32),
}  # fmt: skip
"""Name in the Verilog, and type of a lane."""
WORD_BYTES = {"INP": 4, "ACC": 16, "OUT": 4, "WM": 16, "PM": 64, "UM": 8, "HM": 8}


class VerilatedRun(NamedTuple):
    """Started and ended units of each cycle, sent flits, and memories by name."""

    started: list[int]
    ended: list[int]
    sent: list[tuple[int, ...]]
    memories: dict[str, Ints]


class VerilatedCore:
    """The core; every run starts from reset with empty buffers."""

    def __init__(self, text: str, folder: Path) -> None:
        self._program = built(text, "npu_core", _bench, folder)

    def run(
        self, contents: Mapping[str, bytes], counted: Sequence[int], link: Link, odd: bool,
        most: int,
    ) -> VerilatedRun:  # fmt: skip
        """Run one frame.

        contents : bytes of the memories `LOADED` from their first word on
        counted : initial stream counts; most : maximum number of cycles
        """
        lines = [f"flit {flit:x}" for flit in _loads(contents, counted)]
        assert link.weights is not None
        parts = np.frombuffer(link.weights.tobytes(), "<u4").tolist()
        lines += [f"host {packed((0, 0, WEIGHTS, 0, 0, part)):x}" for part in parts]
        rate = int(1 / link.flits)
        lines += [f"latency {link.latency}", f"rate {rate}", f"odd {int(odd)}", f"most {most}"]
        said = done([str(self._program)], self._program.parent, "\n".join([*lines, "run"]))
        rows = [line.split() for line in said.splitlines()]
        cycles = [(int(row[1]), int(row[2])) for row in rows if row[0] == "cycle"]
        words = {row[0]: [int(word, 16) for word in row[1:]] for row in rows if row[0] in STORED}
        return VerilatedRun(
            [one for one, _ in cycles],
            [one for _, one in cycles],
            [unpacked(int(row[1], 16)) for row in rows if row[0] == "sent"],
            _lanes(words),
        )


def packed(numbers: Sequence[int]) -> int:
    """Return a flit, its first field from bit 0 on."""
    found = at = 0
    for number, width in zip(numbers, FLIT, strict=True):
        assert 0 <= number < 1 << width
        found |= number << at
        at += width
    return found


def unpacked(flit: int) -> tuple[int, ...]:
    found = []
    for width in FLIT:
        found.append(flit & ((1 << width) - 1))
        flit >>= width
    return tuple(found)


def _loads(contents: Mapping[str, bytes], counted: Sequence[int]) -> Iterator[int]:
    """Yield flits that load memories and stream counts; a part of a word has 32 bits."""
    for number, name in enumerate(LOADED):
        for at, part in enumerate(np.frombuffer(contents[name], "<u4").tolist()):
            yield packed((0, 0, LOAD, number, at, part))
    for stream, count in enumerate(counted):
        yield packed((0, 0, TOKEN, stream, 0, count))


def _lanes(words: Mapping[str, list[int]]) -> dict[str, Ints]:
    """Return signed lanes, shape (words, lanes). Vector v is half v & 1 of word v >> 3 of bank
    v >> 1 & 3."""
    found: dict[str, Any] = {}
    for name, size in WORD_BYTES.items():
        data = b"".join(word.to_bytes(size, "little") for word in words[name])
        found[name] = np.frombuffer(data, STORED[name][1]).reshape(len(words[name]), -1)
    banks = (words[f"FM{bank}"] for bank in range(4))
    data = b"".join(word.to_bytes(8, "little") for row in zip(*banks, strict=True) for word in row)
    found["FM"] = np.frombuffer(data, np.int8).reshape(-1, 4)
    found["WM"] = found["WM"].reshape(-1, 4)
    return {name: lanes.astype(np.int64) for name, lanes in found.items()}


def _bench(header: str) -> str:
    """Return the bench with the ports and memories of the core."""
    sources = range(SOURCES)
    shown = []
    for name, (own, _) in STORED.items():
        (member,) = re.findall(rf"\bnpu_core__DOT__{own}(?:_\d+)?(?=;)", header)
        shown.append(
            f'std::printf("{name}");\n    for (const auto& word : core.rootp->{member}.m_storage) '
            'show(word);\n    std::printf("\\n");'
        )
    parts = {
        "READY": "\n    ".join(f"core.sources_{n}_ready = 1;" for n in sources),
        "SENT": "\n        ".join(
            f"sent({n}, core.sources_{n}_valid, core.sources_{n}_payload);" for n in sources
        ),
        "MEMORIES": "\n    ".join(shown),
        "PARTS": str(PARTS),
    }
    text = BENCH
    for name, part in parts.items():
        text = re.sub(rf"\b{name}\b", lambda _, part=part: part, text)
    return text
