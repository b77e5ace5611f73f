"""The exported Verilog of a chip, compiled by Verilator and run with given ports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.hw.verilator import RANDOM, built, done

BENCH = r"""
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include "Vtop.h"
#include "Vtop___024root.h"

template <class T> void put(T& port, const std::string& hex) {
    if constexpr (std::is_integral_v<T>) {
        port = T(std::stoull(hex, nullptr, 16));
    } else {
        for (size_t i = 0; i < sizeof(T) / 4; ++i) {
            const long end = long(hex.size()) - 8 * long(i), begin = end > 8 ? end - 8 : 0;
            port[i] = end > 0 ? std::stoul(hex.substr(begin, end - begin), nullptr, 16) : 0;
        }
    }
}

template <class T> void show(const T& word) {
    if constexpr (std::is_integral_v<T>) {
        std::printf(" %llx", (unsigned long long)word);
    } else {
        std::printf(" ");
        for (size_t i = sizeof(T) / 4; i-- > 0;) std::printf("%08x", word[i]);
    }
}

struct Bench {
    VerilatedContext context;
    Vtop chip{&context};
    std::string heard;
    unsigned slow = 0;
    unsigned long cycles = 0;

    explicit Bench(int argc, char** argv) { context.commandArgs(argc, argv); }

    void cycle() {
        chip.output_ready = !slow || cycles % slow != 0;
        chip.clk = 0;
        chip.eval();
        if (chip.output_valid && chip.output_ready) {
            char text[24];
            std::snprintf(text, sizeof text, " %llx", (unsigned long long)chip.output_payload);
            heard += text;
        }
        chip.clk = 1;
        chip.eval();
        ++cycles;
        chip.clk = 0;
        chip.eval();
    }

    int settle() {
        int waited = 0;
        for (; !chip.done; ++waited) {
            if (waited == 100000) {
                std::fprintf(stderr, "the chip is never done\n");
                std::exit(1);
            }
            cycle();
        }
        return waited;
    }
};

int main(int argc, char** argv) {
    Bench bench(argc, argv);
    Vtop& chip = bench.chip;
    chip.rst = 1;
    chip.tick = chip.input_valid = chip.load_valid = 0;
    for (int i = 0; i < 4; ++i) bench.cycle();
    chip.rst = 0;
    bench.settle();
    char kind, text[4096];
    while (std::scanf(" %c %4095s", &kind, text) == 2) {
        if (kind == 'L') {  // a word to load
            put(chip.load_payload, text);
            chip.load_valid = 1;
            bench.cycle();
            chip.load_valid = 0;
        } else if (kind == 'P') {  // a packet of the host
            put(chip.input_payload, text);
            chip.input_valid = 1;
            chip.eval();
            while (!chip.input_ready) bench.cycle();
            bench.cycle();
            chip.input_valid = 0;
        } else if (kind == 'W') {
            bench.slow = std::stoul(text);
        } else if (kind == 'T') {  // ticks
            for (int left = std::stoi(text); left > 0; --left) {
                bench.settle();
                bench.heard.clear();
                chip.tick = 1;
                bench.cycle();
                chip.tick = 0;
                const int cycles = 1 + bench.settle();
                std::printf("%d%s\n", cycles, bench.heard.c_str());
            }
        } else if (kind == 'S') {  // states
            STATES
        }
    }
    chip.final();
}
"""


class VerilatedTick(NamedTuple):
    """Cycles of a tick, and the packets that the host received in it."""

    cycles: int
    packets: list[int]


class VerilatedRun(NamedTuple):
    """All ticks, and the words of the state memory of each core, in the order of S."""

    ticks: list[VerilatedTick]
    states: list[list[int]]


class VerilatedChip:
    """A chip of spiking cores with the port `output`. Its memories start with random bits.

    text : Verilog with the module `chip`
    """

    def __init__(self, text: str, width: int, height: int, folder: Path) -> None:
        shown = "".join(
            f"for (const auto& word : chip.rootp->chip__DOT__core_{x}_{y}__DOT__sweep__DOT__states"
            '.m_storage) show(word);\n            std::printf("\\n");\n'
            for y in range(height)
            for x in range(width)
        )
        bench = BENCH.replace("STATES", shown)
        self._program = built(text, "chip", lambda _: bench, folder, RANDOM)

    def run(self, commands: Iterable[str], seed: int = 0) -> VerilatedRun:
        """Run commands from reset, each a letter and a number:

        L, P : load a word, send a packet of the host; in hexadecimal
        W : the host does not accept a packet in one of this many cycles; 0 accepts always
        T : run ticks
        S : read the states

        seed : of the random bits
        """
        random = ["+verilator+rand+reset+2", f"+verilator+seed+{seed + 1}"]
        said = done([str(self._program), *random], self._program.parent, "\n".join(commands))
        found = VerilatedRun([], [])
        for line in said.splitlines():
            first, *words = line.split()
            if line.startswith(" "):
                found.states.append([int(word, 16) for word in (first, *words)])
            else:
                found.ticks.append(VerilatedTick(int(first), [int(word, 16) for word in words]))
        return found
