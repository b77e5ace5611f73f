"""Compile mutated ONNX models and compare the programs with ONNX Runtime on the mutated model.

    python scripts/fuzz_mutations.py [--count 2000] [--compiled 500] [--seconds S] [--seed 0]
                                     [--keep FOLDER]

A case changes one to three places of a small model (`fuzz_changes`): float, binary, or quantised in
any of the ways of ONNX Runtime's tools. It is compiled and must be refused with one clear line, or
its results must equal those of the whole mutated model in ONNX Runtime:

* integers and bits: equal, or 25 dB where the comparison of `compile` counts ties of roundings, or
  where the operators of the standard in place of integer kernels give equal results
* real numbers: the graph that the compiler reads, in float32, within 60 dB (unless changes of
  weights in the last place change the model's results more), and the integers within 10 dB of the
  SQNR that `report.json` predicts; with signs, at least each map by itself

Results below 20 dB are counted as coarse: without the script's options, compile refuses them. The
sign of zero is also compared as +1, as on cores. A model that ONNX Runtime refuses must be refused,
too, after nodes that no output needs were removed.

Case N changes a model that the cases of the same N // 8 share; `--seed N --count 1` repeats it.
--keep saves models, samples and messages of failed cases. A table of the results is printed last.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import mapper.cli.compiling  # noqa: E402
from mapper.compiler.artifacts.judge.beside import Judgement  # noqa: E402
from mapper.compiler.artifacts.judge.cut import zero_is_positive  # noqa: E402
from mapper.compiler.artifacts.judge.folders import judged  # noqa: E402
from mapper.compiler.artifacts.manifest import read_folder  # noqa: E402
from mapper.compiler.artifacts.simulate import Machine  # noqa: E402
from mapper.compiler.model import built, open_model  # noqa: E402
from mapper.compiler.numerics.execute import run_graph  # noqa: E402
from mapper.compiler.numerics.floating import FLOATING  # noqa: E402
from scripts.fuzz_changes import change_model  # noqa: E402
from scripts.fuzz_compile import TooLongError, too_long  # noqa: E402
from scripts.fuzz_graphs import good_models  # noqa: E402
from scripts.fuzz_models import Ended, compiled, none_compiled, signature  # noqa: E402
from storage.formats.layers.onnxplain import drop_unneeded, plain_model  # noqa: E402
from tests.compiler.bad_input.good import good  # noqa: E402
from tests.compiler.onnx_sessions import EXACT_PRODUCTS  # noqa: E402
from tests.compiler.random_models import Made, random_model  # noqa: E402

EACH = 8  # cases of one model
MOST_NODES = 25  # of a model before it is changed
GOOD_SHARE = 0.15  # of the models of `fuzz_graphs`
SPREAD_SHARE = 0.3  # of the other models may have several cores, which take longer
FRAMES = 8
OF_PROCESS = 1000  # cases
LONGEST = 90  # processor seconds per case, which may compile kernels
MEMORY = 8 << 30  # bytes of address space
EXACT, MARGIN, LEAST, TIES = 60.0, 10.0, 20.0, 25.0  # dB
PRODUCTS = ("QLinear", "Integer")  # in names of operators
OF_INTEGERS = ("Quant", *PRODUCTS)
WRONG = ("different", "only compiled", "wrong")
KINDS = ("refused", "equal", "ties", "predicted", "coarse", *WRONG)

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """Result of a case. how : of `KINDS`, or "no model"; what : model and changes"""

    number: int
    how: str
    what: str = ""
    said: str = ""


def decibels(right: Array, found: Array) -> float:
    """Return the SQNR in dB; infinite if all numbers are equal, -infinite for different shapes."""
    right, found = (np.asarray(one, np.float64).ravel() for one in (right, found))
    if right.size != found.size:
        return -math.inf
    with np.errstate(all="ignore"):
        same = (right == found) | (np.isnan(right) & np.isnan(found))
        off = np.where(same, 0.0, right - found)
        off = np.where(np.isfinite(right) & ~np.isfinite(found), right, off)  # x / 0: lost
        error, power = (off**2).sum(), (right[np.isfinite(right)] ** 2).sum()
    if not np.isfinite(error):
        return -math.inf
    return math.inf if error == 0 else 10 * math.log10(max(power, 1e-300) / error)


def computed(model: Any, samples: Array, fused: bool = False) -> dict[str, Array]:
    """Return the outputs of a model in ONNX Runtime, shape (frames, ...).

    fused : after graph optimisations, which round differently; before them, products of integers
        are not exact on all processors (see tests/compiler/onnx_sessions.py)
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_EXTENDED if fused else levels.ORT_DISABLE_ALL
    )
    options.add_session_config_entry(*EXACT_PRODUCTS)
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    (given,) = session.get_inputs()
    kinds = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2"}
    kind = kinds.get(given.type) or given.type[7:-1]
    names = [one.name for one in session.get_outputs()]
    runs = [session.run(None, {given.name: one[None].astype(kind)}) for one in samples]
    return {name: np.stack([run[at] for run in runs]) for at, name in enumerate(names)}


def in_onnxruntime(model: Any, samples: Array) -> list[dict[str, Array]]:
    """Return the outputs in all permitted ways; raise an error of ONNX Runtime.

    These are with products of integers before and after graph optimisations, and with +1 as the
    sign of zero.
    """
    model = type(model).FromString(model.SerializeToString())
    drop_unneeded(model.graph)
    del model.graph.value_info[:]
    try:
        found = [computed(model, samples)]
    except Exception:  # it lacks an operator that `plain_model` replaces
        plain_model(model)
        found = [computed(model, samples)]
    if any(word in node.op_type for node in model.graph.node for word in PRODUCTS):
        with contextlib.suppress(Exception):  # no kernel for the fused types
            found.append(computed(model, samples, fused=True))
    if any(node.op_type == "Sign" for node in model.graph.node):
        zero_is_positive(model.graph)
        with contextlib.suppress(Exception):  # a sign of integers
            found.append(computed(model, samples))
    return found


def _same_as_plain(model: Any, samples: Array, ended: Ended) -> bool:
    """Return whether the operators of the standard, in place of integer kernels, give the same."""
    model = type(model).FromString(model.SerializeToString())
    plain_model(model)
    theirs = computed(model, samples)
    return all(decibels(theirs[name], ours) >= 2 * EXACT for name, ours in ended.values.items())


def _undetermined(model: Any, samples: Array, name: str, theirs: Array) -> bool:
    """Return whether an output changes if weights change in the last place, as after the sign of a
    sum that may be 0."""
    model = type(model).FromString(model.SerializeToString())
    random = np.random.default_rng(0)
    for one in model.graph.initializer:
        value = numpy_helper.to_array(one)
        if value.dtype == np.float32:
            near = np.nextafter(value, random.choice([-np.inf, np.inf], value.shape), dtype="f4")
            one.CopyFrom(numpy_helper.from_array(near, one.name))
    return decibels(theirs, computed(model, samples)[name]) < EXACT


def as_read(path: Path, samples: Array) -> dict[str, Array] | None:
    """Return the outputs of the graph that compile reads, in float32; None if it has integers."""
    model = open_model(path)
    if model.quantised:
        return None
    graph = built(model, ())
    ((_, view),) = graph.inputs.items()
    inverse = np.argsort(view.order)
    runs = []
    for one in samples:
        feed = one.reshape(view.ordered).transpose(inverse).astype(np.float32)
        ends = [end.tensor for end in graph.outputs.values()]
        got = run_graph(graph, {view.tensor: feed}, FLOATING, ends)
        runs.append({name: end.frame(got[end.tensor]) for name, end in graph.outputs.items()})
    return {name: np.stack([run[name] for run in runs]) for name in graph.outputs}


def nearest(theirs: list[dict[str, Array]], name: str, ours: Array) -> float:
    return max(decibels(one[name], ours) if name in one else -math.inf for one in theirs)


def judgement(folder: Path, samples: Array, report: Mapping[str, Any]) -> Judgement:
    """Compare each map of a compiled model by itself."""
    made = read_folder(folder / "out")
    return judged(Machine(made), made.model, samples[:FRAMES], report)


def verdict(model: Any, samples: Array, folder: Path, ended: Ended) -> tuple[str, str]:
    """Return one of `KINDS`, and a message, for a model that compiled."""
    try:
        theirs = in_onnxruntime(model, samples)
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        return "no model" if "not supported" in said else "only compiled", said
    report = json.loads((folder / "out" / "report.json").read_text())
    read = as_read(folder / "model.onnx", samples)
    for name, ours in (read or {}).items():
        signal = nearest(theirs, name, ours)
        if signal < EXACT:
            tied = _undetermined(model, samples, name, theirs[0][name])
            return "ties" if tied else "different", f"output {name!r} as read: {signal:.1f} dB"
    signals = {name: nearest(theirs, name, ours) for name, ours in ended.values.items()}
    text = ", ".join(f"output {name!r}: {signal:.1f} dB" for name, signal in signals.items())
    worst = min(signals.values())
    if worst >= 2 * EXACT:
        return "equal", text
    predicted = report["outputs_db"]
    if not predicted:
        maps = judgement(folder, samples, report)
        tied = maps.ties or maps.left_out
        if worst >= TIES and tied:
            return "ties", text
        equal = worst >= EXACT or _same_as_plain(model, samples, ended)
        return "equal" if equal else "different", text
    for name, signal in signals.items():
        known = predicted.get(name, LEAST + MARGIN)  # None: without error
        wanted = (EXACT if known is None else min(EXACT, known)) - MARGIN
        if signal < wanted:
            # a number near 0 that is rounded to another sign changes all results after it
            signs = any(node.op_type == "Sign" for node in model.graph.node)
            apart = signs and judgement(folder, samples, report).departure is None
            return "coarse" if apart else "different", (
                f"{text}; {wanted:.1f} dB predicted for {name!r}"
            )
    return "coarse" if worst < LEAST else "predicted", text


def base(number: int, folder: Path) -> Made | None:
    """Return the model of `EACH` cases."""
    random = np.random.default_rng([number, 40])
    if random.random() < GOOD_SHARE:
        some = good_models(folder)
        one = some[int(random.integers(len(some)))]
        style: Any = "float" if one.real else "QDQ"
        return Made(one.model, np.asarray(good().samples["x"]), style, "2x2")
    made = random_model(number, folder)
    if made is None or len(made.model.graph.node) > MOST_NODES:
        return None
    return made if random.random() < SPREAD_SHARE else made._replace(chip="1x1")


def fitted(samples: Array, model: Any) -> Array:
    """Return samples in the shape of the model's input, repeated or cut off."""
    dims = model.graph.input[0].type.tensor_type.shape.dim if model.graph.input else ()
    if len(dims) == samples.ndim:
        for axis, dim in enumerate(dims):
            if axis and 0 < dim.dim_value < 1 << 10:
                samples = np.take(samples, np.arange(dim.dim_value), axis, mode="wrap")
    return np.asarray(samples, np.float32)


def tried(number: int, made: Made, folder: Path, keep: Path | None) -> Case:
    """Change a model, compile it, and compare the result."""
    random = np.random.default_rng([number, 41])
    try:
        data, what = change_model(made.model, random)
        model = type(made.model).FromString(data)
    except (ValueError, TypeError):  # protobuf refuses the change
        return Case(number, "no model")
    samples = fitted(made.samples, model)
    if not any(word in node.op_type for node in model.graph.node for word in OF_INTEGERS):
        made = made._replace(style="float")  # no quantised node is left
    what = f"{made.style}, {made.chip}: {what}"
    ended = compiled(made._replace(model=data, samples=samples), folder, FRAMES)
    how, said = ended.how, ended.said
    if how == "right":
        try:
            how, said = verdict(model, samples, folder, ended)
        except Exception:
            how, said = "wrong", traceback.format_exc().strip().splitlines()[-1]
    if keep and how in WRONG:
        place = keep / str(number)
        place.mkdir(parents=True, exist_ok=True)
        (place / "model.onnx").write_bytes(data)
        np.save(place / "samples.npy", samples)
        (place / "said.txt").write_text(f"{what}\n{how}: {said}\n")
    return Case(number, how, what, said)


def forked(work: Callable[[], Iterator[Case]]) -> Iterator[Case]:
    """Yield the values of a generator in a child process, which may end or fill its memory."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            with os.fdopen(write, "wb", 0) as file:
                for one in work():
                    file.write(pickle.dumps(one))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    try:
        with os.fdopen(read, "rb") as file:
            while True:
                try:
                    yield pickle.load(file)
                except EOFError:
                    return
    finally:
        os.waitpid(child, 0)


def in_child(numbers: range, keep: Path | None) -> Iterator[Case]:
    """Yield the results of some cases."""
    logging.disable(logging.WARNING)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, too_long)
    last, made = -1, None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)  # external data is written there
        for number in numbers:
            if number // EACH != last:
                last, made = number // EACH, base(number // EACH, folder)
            if made is None:
                yield Case(number, "no model")
                continue
            signal.setitimer(signal.ITIMER_PROF, LONGEST)
            try:
                yield tried(number, made, folder, keep)
            except TooLongError as error:
                yield Case(number, "wrong", "", str(error))
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)


def cases(seed: int, count: int, keep: Path | None) -> Iterator[Case]:
    """Yield the results of some cases in order, from processes that start again if they end."""
    at, stop = seed, seed + count
    while at < stop:
        numbers = range(at, min(stop, at + OF_PROCESS))
        for one in forked(lambda numbers=numbers: in_child(numbers, keep)):  # type: ignore[misc]
            yield one
            at += 1
        if at < numbers.stop:
            yield Case(at, "wrong", "", "the process ended")
            at += 1


def table(ends: Mapping[str, int]) -> str:
    """Return the results as a row of Markdown with its head."""
    compared = sum(ends.get(how, 0) for how in KINDS[1:])
    head = ("tried", "compiled", *KINDS)
    tried_ = compared + ends.get("refused", 0)
    row = (tried_, compared, *(ends.get(how, 0) for how in KINDS))
    lines = (head, ["---:"] * len(head), [f"{one:,}" for one in row])
    return "\n".join(f"| {' | '.join(one)} |" for one in lines)


def main() -> int:
    words = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(description=words[0])
    parser.add_argument("--count", type=int, default=2000, help="maximum number of cases")
    parser.add_argument("--compiled", type=int, default=500, help="compiled models, then it ends")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time limit, seconds")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for failed cases")
    options = parser.parse_args()
    keep = options.keep and options.keep.resolve()
    mapper.cli.compiling.compile_once = none_compiled  # kernels are compiled on demand
    ends: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    begun = time.monotonic()
    for one in cases(options.seed, options.count, keep):
        ends[one.how] += 1
        if one.how in (*WRONG, "coarse"):
            print(f"case {one.number}, {one.how}: {one.what}\n    {one.said}", flush=True)
        elif one.how == "refused":
            refusals[signature(one.said)] += 1
        if one.number % 100 == 99:
            print(f"case {one.number}: {dict(ends)}", file=sys.stderr, flush=True)
        good_ = sum(ends[how] for how in ("equal", "ties", "predicted", "different"))
        if good_ >= options.compiled or time.monotonic() - begun > options.seconds:
            break
    for said, number in refusals.most_common(12):
        print(f"{number:5} refused: {said}")
    print(
        f"cases {options.seed} to {one.number}, {time.monotonic() - begun:.0f} s\n\n{table(ends)}"
    )
    return 1 if any(ends[how] for how in WRONG) else 0


if __name__ == "__main__":
    sys.exit(main())
