#!/usr/bin/env python3
"""Runs every benchmark of Mobius and its peer in PyTorch: the Google Benchmark suites, one training step on recall, one of
a language model, attention alone, and decoding.

    python3 bench/run.py --build build                    # everything (`make bench`)
    python3 bench/run.py --only step --rounds 5           # only the training step on recall
    python3 bench/run.py --only lm                        # only that of a language model, f32 and bf16
    python3 bench/run.py --only attention --rounds 1      # every kind of attention
    python3 bench/run.py --only decoding --rounds 1       # one more token after long contexts
    MOBIUS_PEER_PYTHON=/path/to/venv/bin/python3 make bench

Every contender is a program that takes the sizes as options and prints one JSON object on its last line: name, ms (median
time of a call), ms_min, peak_mb (peak resident memory of the process); bench/README.md has the whole contract. They take
turns for several rounds, each in a fresh process. The tables show the median of the rounds' medians, the fastest call of
all, and Mobius's advantage. Each process waits up to --wait-s seconds until the machine is idle. PyTorch runs with the
settings that its tuning guide recommends.
"""
import argparse
import ctypes.util
import functools
import glob
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("suites", "step", "lm", "attention", "decoding")
SIZES = {"vocab": 8192, "d-model": 128, "layers": 2, "heads": 1, "seq-len": 256, "pairs": 16, "batch": 64}
STEP_PEERS = [("--head", "all"), ("--head", "all", "--compile"), ("--head", "labelled"), ("--head", "labelled", "--compile")]
LM_SIZES = {"vocab": 256, "d-model": 384, "layers": 6, "heads": 6, "seq-len": 256, "batch": 8}
LM_PEERS = [(), ("--compile",), ("--attention", "explicit", "--compile")]
PRECISIONS = ("f32", "bf16")
ATTENTION_SIZES = {"batch": 4, "heads": 8, "head-dim": 64}
KERNELS = ("softmax", "conformal", "conformal_none", "conformal_empirical", "conformal_hierarchical", "conformal_degrees",
           "w2", "w2_overlap", "linear", "performer", "sparse_local", "sparse_strided", "sparse_topk")
EXPLICIT = ("conformal", "w2", "linear")  # the kernels that have a peer in explicit PyTorch, eager and compiled

DECODING_KINDS = ("tree", "conformal", "conformal_fused", "softmax", "softmax_fused", "recurrent")
DECODING_CONTEXTS = (1 << 10, 1 << 14, 1 << 18, 1 << 20)


def cores():
    return len(os.sched_getaffinity(0))


def busy_seconds():
    """Returns the CPU seconds that the whole machine has been busy, from /proc/stat."""
    with open("/proc/stat") as file:
        fields = [int(x) for x in file.readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def wait_quiet(limit_s):
    """Waits for a second in which other processes use less than a tenth of a core, at most limit_s."""
    end = time.monotonic() + limit_s
    while True:
        busy, begin = busy_seconds(), time.monotonic()
        time.sleep(1.0)
        if (busy_seconds() - busy) / (time.monotonic() - begin) < 0.1 or time.monotonic() > end:
            return


def find_jemalloc():
    """Returns the path of libjemalloc.so.2, or a bare name that the linker resolves, or None."""
    found = glob.glob("/usr/lib/*/libjemalloc.so.2") + glob.glob("/usr/lib*/libjemalloc.so.2")
    return found[0] if found else ctypes.util.find_library("jemalloc")


def peer_environment(jemalloc):
    """Returns the best environment for PyTorch: freed memory stays mapped on huge pages, one thread per core."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    environment["OMP_NUM_THREADS"] = str(cores())
    if jemalloc:
        environment["LD_PRELOAD"] = jemalloc
        environment["MALLOC_CONF"] = ("oversize_threshold:1,background_thread:false,thp:always,"
                                      "dirty_decay_ms:-1,muzzy_decay_ms:-1")
    with open("/proc/cpuinfo") as file:
        if " avx512f " in file.read():
            environment["ATEN_CPU_CAPABILITY"] = "avx512"
    return environment


def run_process(command, environment, folder=None):
    """Returns (output, seconds, others) of a command, where `others` is the number of cores that other processes used
    meanwhile. Prints a message and returns None if it fails."""
    def others_seconds():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return busy_seconds() - children.ru_utime - children.ru_stime

    others, begin = others_seconds(), time.monotonic()
    done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"failed ({done.returncode}): {' '.join(map(str, command))}: {last}", file=sys.stderr)
        return None
    return done.stdout, seconds, round((others_seconds() - others) / seconds, 2)


def disturbance(others):
    """Returns a remark if other processes used more than a fifth of a core."""
    return f"  (others used {others} cores)" if others > 0.2 else ""


def run_contender(command, environment):
    """Returns the JSON object on the last line of the command's output, with `others`; None if it fails."""
    done = run_process(command, environment)
    return done and {**json.loads(done[0].strip().splitlines()[-1]), "others": done[2]}


def torch_version(python):
    """Returns the PyTorch version of an interpreter; None if either is missing."""
    if not shutil.which(python):
        return None
    probe = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return probe.stdout.strip() if probe.returncode == 0 else None


@functools.cache
def peer_python():
    """Returns the interpreter that has PyTorch, or None, and prints which."""
    python = os.environ.get("MOBIUS_PEER_PYTHON", "python3")
    version = torch_version(python)
    if version is None:
        print(f"skipped: PyTorch ({python} cannot import torch; MOBIUS_PEER_PYTHON names another interpreter)")
        return None
    jemalloc = find_jemalloc()
    print(f"PyTorch {version}, " + (f"with {jemalloc}" if jemalloc else
          "WITHOUT jemalloc, which makes it slower: install libjemalloc2 for a fair comparison"))
    return python


def contenders(build, program, ours, peers):
    """Returns (command, environment) of Mobius's `program` with each list of options in `ours`, and of the PyTorch program
    of this name with each in `peers`. Prints what is skipped, and why."""
    path = pathlib.Path(build) / "bench" / program
    if path.exists():
        for options in ours:
            yield [str(path), *options], {**os.environ, "OMP_NUM_THREADS": str(cores())}
    else:
        print(f"skipped: Mobius ({path} is not built)")
    python = peer_python() if peers else None
    for options in peers if python else ():
        yield [python, str(HERE / "peers" / f"{program}.py"), *options], peer_environment(find_jemalloc())


def options_of(sizes):
    return [text for key, value in sizes.items() for text in (f"--{key}", str(value))]


def measure(args, runs, key_of):
    """Runs the contenders in turn for all rounds. Returns key_of(result) -> list of results, and whether all succeeded. A
    contender that fails is skipped in later rounds."""
    runs, results, failed = list(runs), {}, set()
    for number in range(args.rounds):
        for index, (command, environment) in enumerate(runs):
            if index in failed:
                continue
            wait_quiet(args.wait_s)
            result = run_contender(command, environment)
            if result is None:
                failed.add(index)
                continue
            key = key_of(result)
            results.setdefault(key, []).append(result)
            label = key if isinstance(key, str) else " ".join(map(str, key))
            print(f"round {number + 1}/{args.rounds}  {label}: {result['ms']:.4g} ms{disturbance(result['others'])}", flush=True)
    return results, not failed


def summary(runs):
    """Returns (median ms, fastest ms, peak MiB) of one contender's rounds; subtracts `base_mb`, if given, from the peak."""
    return (statistics.median(r["ms"] for r in runs), min(r["ms_min"] for r in runs),
            max(r["peak_mb"] - r.get("base_mb", 0) for r in runs))


def matmul_peak(results):
    """Prints and returns the GFLOP/s of the fastest large matrix product of all processes of Mobius; 0 if none."""
    peak = max((r["matmul_gflop_s"] for runs in results.values() for r in runs if "matmul_gflop_s" in r), default=0)
    if peak:
        print(f"\nf32 peak, by a product of 2048 x 2048 matrices: {peak:.0f} GFLOP/s")
    return peak


def print_step_table(results, gflop=0, peak=0):
    """Prints one row per contender; the ratios are its time and memory over Mobius's. `gflop` counts one step; the share
    of `peak` is that of the median step."""
    rows = {name: summary(runs) for name, runs in results.items()}
    ours = rows.get("Mobius")
    width = max((len(name) for name in rows), default=0)
    print(f"\n{'':{width}}  {'median ms':>10}  {'best ms':>8}  {'peak MiB':>8}" +
          ("  x median   x best  x memory" if ours else "") + ("   GFLOP/s  of peak" if peak else ""))
    for name, row in rows.items():
        line = f"{name:{width}}  {row[0]:10.1f}  {row[1]:8.1f}  {row[2]:8.0f}"
        if ours:
            line += "  " + "  ".join(f"{theirs / mine:8.2f}" for theirs, mine in zip(row, ours))
        if peak:
            line += f"  {gflop / row[0] * 1e3:8.0f}  {gflop / row[0] * 1e5 / peak:6.1f}%"
        print(line)


def run_step(args):
    """Times the training step of every contender. Returns whether all succeeded, and the results."""
    step = {key: getattr(args, key.replace("-", "_")) for key in SIZES}
    print("== one training step on multi-query associative recall: " +
          ", ".join(f"{key} {value}" for key, value in step.items()) + f", {cores()} threads")
    sizes = options_of(step)
    runs = contenders(args.build, "mqar_step", [sizes], [[*sizes, *options] for options in STEP_PEERS])
    results, good = measure(args, runs, lambda result: result["name"])
    if results:
        print_step_table(results)
    return good, results


def print_lm_tables(results):
    """Prints a table for each precision. Both have equal work and are compared with the f32 peak."""
    peak = matmul_peak(results)
    gflop = max((r["gflop"] for runs in results.values() for r in runs if "gflop" in r), default=0)
    for precision in PRECISIONS:
        rows = {name: runs for (of, name), runs in results.items() if of == precision}
        if rows:
            print(f"\n{precision}:", end="")
            print_step_table(rows, gflop, peak)


def run_lm(args):
    """Times the language-model step of every contender. Returns whether all succeeded, and the results."""
    print("== one training step of a language model: " +
          ", ".join(f"{key} {value}" for key, value in LM_SIZES.items()) + f", {cores()} threads")
    ours = [[*options_of(LM_SIZES), "--precision", precision] for precision in PRECISIONS]
    peers = [[*options, *peer] for options in ours for peer in LM_PEERS]
    runs = contenders(args.build, "lm_step", ours, peers)
    results, good = measure(args, runs, lambda result: (result["precision"], result["name"]))
    if results:
        print_lm_tables(results)
    return good, {" ".join(key): runs for key, runs in results.items()}


def attention_runs(args):
    """Returns the contenders of every length, the shortest first."""
    for n in args.lengths:
        sizes = options_of({**ATTENTION_SIZES, "seq-len": n})
        ours = [[*sizes, "--kernel", kernel] for kernel in args.kernels]
        peers = [[*sizes, "--kernel", "softmax"]] if "softmax" in args.kernels else []
        for kernel in filter(EXPLICIT.__contains__, args.kernels):
            peers += [[*sizes, "--kernel", kernel], [*sizes, "--kernel", kernel, "--compile"]]
        yield from contenders(args.build, "attention", ours, peers)


def print_attention_table(results):
    """Prints, for each length and kernel, Mobius's row and below it those of PyTorch with their time and memory over
    Mobius's. Memory excludes that before the inputs were made, i.e. the libraries."""
    peak = matmul_peak(results)
    print(f"\n{'':>5}  {'':20}  {'median ms':>9}  {'best ms':>8}  {'+ MiB':>8}  {'of peak':>7}  {'/ softmax':>9}"
          f"  {'x median':>8}  {'x best':>7}  {'x memory':>8}")
    for n, kernel in dict.fromkeys((n, kernel) for n, kernel, _ in results):
        ours = summary(results[n, kernel, "Mobius"]) if (n, kernel, "Mobius") in results else None
        for name in ("Mobius", "PyTorch fused", "PyTorch eager", "PyTorch compiled"):
            runs = results.get((n, kernel, name))
            if not runs:
                continue
            row = summary(runs)
            line = f"{n:5}  {kernel if name == 'Mobius' else '  ' + name:20}  {row[0]:9.2f}  {row[1]:8.2f}  {row[2]:8.0f}"
            if name == "Mobius":
                gflop, softmax = runs[0]["gflop"], results.get((n, "softmax", "Mobius"))
                line += f"  {gflop / row[0] * 1e5 / peak:6.1f}%" if gflop else f"  {'-':>7}"
                line += f"  {row[0] / summary(softmax)[0]:9.2f}" if softmax else ""
            elif ours:
                line += f"  {'':7}  {'':9}  {row[0] / ours[0]:8.2f}  {row[1] / ours[1]:7.2f}  {row[2] / ours[2]:8.2f}"
            print(line)


def run_attention(args):
    """Times every kind of attention at every length. Returns whether all succeeded, and the results."""
    print("== causal attention, forward and backward, f32: " +
          ", ".join(f"{key} {value}" for key, value in ATTENTION_SIZES.items()) +
          f", n {', '.join(map(str, args.lengths))}, {cores()} threads")
    results, good = measure(args, attention_runs(args), lambda r: (r["n"], r["kernel"], r["name"]))
    if results:
        print_attention_table(results)
    return good, {" ".join(map(str, key)): runs for key, runs in results.items()}


def print_decoding_table(results):
    """Prints, for each context and kind, the time of one more token, over that of the tree too, and the memory of its state."""
    print(f"\n{'context':>8}  {'':16}  {'median us':>10}  {'best us':>10}  {'x median':>9}  {'x best':>9}  {'state MiB':>10}")
    for (context, kind), runs in results.items():
        row = summary(runs)
        line = f"{context:8}  {kind:16}  {row[0] * 1e3:10.1f}  {row[1] * 1e3:10.1f}"
        tree = summary(results[context, "tree"]) if (context, "tree") in results else None
        line += f"  {row[0] / tree[0]:9.2f}  {row[1] / tree[1]:9.2f}" if tree else f"  {'':9}  {'':9}"
        print(line + f"  {runs[0]['state_mb']:10.3f}")


def run_decoding(args):
    """Times one more token after every context by every kind of state. Returns whether all succeeded, and the results."""
    print(f"== attention of one more token, f32, one head of 64, {cores()} threads")
    ours = [["--kind", kind, "--context", str(context)] for context in DECODING_CONTEXTS for kind in DECODING_KINDS]
    results, good = measure(args, contenders(args.build, "decoding", ours, []), lambda r: (r["context"], r["kind"]))
    if results:
        print_decoding_table(results)
    return good, {" ".join(map(str, key)): runs for key, runs in results.items()}


def run_suites(args):
    """Runs the Google Benchmark suites. Returns whether all succeeded."""
    suites = sorted((pathlib.Path(args.build) / "bench").glob("*_bench"))
    if not suites:
        print(f"skipped: the Google Benchmark suites (none in {args.build}/bench)")
    good = True
    for suite in suites:
        print(f"== {suite.name}", flush=True)
        good &= subprocess.run([str(suite)]).returncode == 0
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--only", choices=PARTS, help="run only this part")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wait-s", type=float, default=30.0)
    parser.add_argument("--json", help="also write every result to this file")
    step = parser.add_argument_group("sizes of the training step on recall")
    for key, value in SIZES.items():
        step.add_argument(f"--{key}", type=int, default=value)
    attention = parser.add_argument_group("attention")
    attention.add_argument("--lengths", type=int, nargs="+", default=[256, 1024, 4096], help="sequence lengths")
    attention.add_argument("--kernels", nargs="+", default=KERNELS, choices=KERNELS, metavar="KIND",
                           help=f"any of {', '.join(KERNELS)}; by default all")
    args = parser.parse_args()
    parts = [part for part in PARTS if args.only in (None, part)]
    good, results = True, {}
    if "suites" in parts:
        good &= run_suites(args)
    for part, run in (("step", run_step), ("lm", run_lm), ("attention", run_attention),
                      ("decoding", run_decoding)):
        if part in parts:
            fine, results[part] = run(args)
            good &= fine
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
