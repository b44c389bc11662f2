#!/usr/bin/env python3
"""Runs every benchmark: the Google Benchmark suites, then one training step of Mobius beside the same step in PyTorch.

    python3 bench/run.py --build build                    # all of it (`make bench`)
    python3 bench/run.py --only step --rounds 5           # the training step alone
    MOBIUS_PEER_PYTHON=/path/to/venv/bin/python3 make bench

Every contender of the training step is a program that takes the sizes as options and prints one JSON object on its last
line: name, ms (median time of a step), ms_min, peak_mb (peak resident memory of the process); bench/README.md has the
whole contract. They take turns, a fresh process each, for several rounds; the table shows the median of the rounds'
medians, the fastest step of all, and Mobius's advantage by both. The machine is given up to --wait-s seconds to come to
rest before each. PyTorch is run at the settings that its tuning guide recommends.
"""
import argparse
import ctypes.util
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
SIZES = {"vocab": 8192, "d-model": 128, "layers": 2, "heads": 1, "seq-len": 256, "pairs": 16, "batch": 64}
PEERS = [("--head", "all"), ("--head", "all", "--compile"), ("--head", "labelled"), ("--head", "labelled", "--compile")]


def cores():
    return len(os.sched_getaffinity(0))


def busy_seconds():
    """CPU seconds the whole machine has spent working, from /proc/stat."""
    with open("/proc/stat") as file:
        fields = [int(x) for x in file.readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def wait_quiet(limit_s):
    """Returns after a second in which other processes used less than a tenth of a core, or after limit_s."""
    end = time.monotonic() + limit_s
    while True:
        busy, begin = busy_seconds(), time.monotonic()
        time.sleep(1.0)
        if (busy_seconds() - busy) / (time.monotonic() - begin) < 0.1 or time.monotonic() > end:
            return


def find_jemalloc():
    """The path of libjemalloc.so.2, or None. The linker resolves a bare name too, where ldconfig knows it."""
    found = glob.glob("/usr/lib/*/libjemalloc.so.2") + glob.glob("/usr/lib*/libjemalloc.so.2")
    return found[0] if found else ctypes.util.find_library("jemalloc")


def peer_environment(jemalloc):
    """PyTorch at its best: freed memory stays mapped on huge pages, and each core has one thread."""
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


def run_contender(command, environment):
    """The JSON object on the last line of the command's output, and `others`, the number of cores that other processes
    used meanwhile; None, with a message, where it fails."""
    def others_seconds():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return busy_seconds() - children.ru_utime - children.ru_stime

    others, begin = others_seconds(), time.monotonic()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    others = (others_seconds() - others) / (time.monotonic() - begin)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"failed ({done.returncode}): {' '.join(map(str, command))}: {last}", file=sys.stderr)
        return None
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "others": round(others, 2)}


def torch_version(python):
    """The version of PyTorch that an interpreter has; None without one, or without the interpreter."""
    if not shutil.which(python):
        return None
    probe = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return probe.stdout.strip() if probe.returncode == 0 else None


def contenders(args):
    """(command, environment) of Mobius and of each PyTorch setting; says what is skipped, and why."""
    sizes = [text for key in SIZES for text in (f"--{key}", str(getattr(args, key.replace("-", "_"))))]
    ours = pathlib.Path(args.build) / "bench" / "mqar_step"
    if ours.exists():
        yield [str(ours), *sizes], {**os.environ, "OMP_NUM_THREADS": str(cores())}
    else:
        print(f"skipped: Mobius's own step ({ours} is not built)")

    python = os.environ.get("MOBIUS_PEER_PYTHON", "python3")
    version = torch_version(python)
    if version is None:
        print(f"skipped: PyTorch ({python} cannot import torch; MOBIUS_PEER_PYTHON names another interpreter)")
        return
    jemalloc = find_jemalloc()
    print(f"PyTorch {version}, " + (f"with {jemalloc}" if jemalloc else
          "WITHOUT jemalloc, which makes it slower: install libjemalloc2 for a fair comparison"))
    for options in PEERS:
        yield [python, str(HERE / "peers" / "mqar_step.py"), *sizes, *options], peer_environment(jemalloc)


def measure(args):
    """Runs the contenders in turn for all rounds; returns name -> list of their results, and whether all succeeded."""
    runs = list(contenders(args))
    results, good = {}, True
    for number in range(args.rounds):
        for command, environment in runs:
            wait_quiet(args.wait_s)
            result = run_contender(command, environment)
            good = good and result is not None
            if result:
                results.setdefault(result["name"], []).append(result)
                disturbed = f"  (others used {result['others']} cores)" if result["others"] > 0.2 else ""
                print(f"round {number + 1}/{args.rounds}  {result['name']}: {result['ms']:.1f} ms{disturbed}", flush=True)
    return results, good


def print_table(results):
    """One row a contender; the ratios say how many times Mobius's time and memory the contender needs."""
    rows = {name: (statistics.median(r["ms"] for r in runs), min(r["ms_min"] for r in runs),
                   max(r["peak_mb"] for r in runs)) for name, runs in results.items()}
    ours = rows.get("Mobius")
    width = max((len(name) for name in rows), default=0)
    print(f"\n{'':{width}}  {'median ms':>10}  {'best ms':>8}  {'peak MiB':>8}" +
          ("  x median   x best  x memory" if ours else ""))
    for name, row in rows.items():
        line = f"{name:{width}}  {row[0]:10.1f}  {row[1]:8.1f}  {row[2]:8.0f}"
        if ours:
            line += "  " + "  ".join(f"{theirs / mine:8.2f}" for theirs, mine in zip(row, ours))
        print(line)


def run_step(args):
    """The training step of every contender; False where one fails."""
    print("== one training step on multi-query associative recall: " +
          ", ".join(f"{key} {getattr(args, key.replace('-', '_'))}" for key in SIZES) + f", {cores()} threads")
    results, good = measure(args)
    if results:
        print_table(results)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n")
    return good


def run_suites(args):
    """The Google Benchmark suites; False where one fails."""
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
    parser.add_argument("--only", choices=("suites", "step"), help="leave the other part out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wait-s", type=float, default=30.0)
    parser.add_argument("--json", help="also write every result to this file")
    for key, value in SIZES.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    args = parser.parse_args()
    good = args.only == "step" or run_suites(args)
    if args.only != "suites":
        good &= run_step(args)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
