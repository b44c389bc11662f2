#!/usr/bin/env python3
"""Estimates what the figures of scripts/gpu_check.py will be on a GPU, from what kernels were counted to do.

    scripts/gpu_estimates.py --build build            # writes docs/gpu_estimates.json and prints the tables of docs/gpu.md

The benchmarks run at small sizes on the libraries that stand in for CUDA's (tests/gpuless), which count the instructions,
sectors of memory and passes of shared memory of every kernel. Counts grow as a n + b n^2 in the length of attention, and
with the number of elements elsewhere; a kernel takes as long as the scarcest of its resources. Products of cuBLASLt are
taken at the speed that GPU_LIMITS gives. No figure here was measured on a GPU.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of the SXM boards (NVIDIA's data sheets and Hopper tuning guide). A multiprocessor issues 4 instructions of a warp in a
# clock, half of one on f64 a quarter, finishes 16 lanes of special functions, one pass of shared memory, and, by
# mma.sync, 0.62 of the m16n8k16 products of bf16 that wgmma does. L2's speed and the products' are measured by others.
GPU_LIMITS = {
    "H100": {"multiprocessors": 132, "ghz": 1.755, "memory_tb_s": 2.9, "l2_tb_s": 5.5, "bf16_tflop_s": 660, "f32_tflop_s": 50},
    "H200": {"multiprocessors": 132, "ghz": 1.755, "memory_tb_s": 4.3, "l2_tb_s": 5.5, "bf16_tflop_s": 680, "f32_tflop_s": 50},
}
MMA_A_CLOCK = 0.62
LAUNCH_MS = 0.003
SETUP = ("random", "fill", "arange")  # kernels that make operands


def run(build, program, options):
    """Returns the program's JSON line and the counters of its kernels: name -> counters."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(build / "tests/gpuless/lib"), "MOBIUS_GPULESS_REPORT": str(report)}
        done = subprocess.run([str(build / "bench" / program), *map(str, options), "--device", "cuda"], env=environment,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{program} {' '.join(map(str, options))}: {done.stderr.strip()[-400:]}")
        kernels = json.loads(report.read_text())["kernels"]
        return json.loads(done.stdout.strip().splitlines()[-1]), {
            name: flat(counters) for name, counters in kernels.items() if not any(word in name for word in SETUP)}


def flat(counters):
    """What an estimate needs of a kernel's counters."""
    instructions = counters["instructions"]
    return {
        "launches": counters["launches"],
        "issue": sum(kind["warps"] for kind in instructions.values()),
        "fp64": instructions["fp64"]["warps"],
        "special": instructions["special"]["lanes"],
        "tensor": instructions["tensor"]["warps"],
        "shared": counters["shared_reads"]["wavefronts"] + counters["shared_writes"]["wavefronts"],
        "bytes": 32 * (counters["global_reads"]["sectors"] + counters["global_writes"]["sectors"]),
    }


def combine(kernels, function):
    """The same counts of several runs of one kernel, each by `function` of its numbers."""
    return {key: function(*(kernel[key] for kernel in kernels)) for key in kernels[0]}


def limits_ms(counts, gpu, bandwidth):
    """How long each resource takes, in ms."""
    clocks = gpu["multiprocessors"] * gpu["ghz"] * 1e6  # of all multiprocessors, a millisecond
    return {"issue": counts["issue"] / 4 / clocks, "f64": counts["fp64"] / 2 / clocks, "special functions": counts["special"] / 16 / clocks,
            "tensor cores": counts["tensor"] / MMA_A_CLOCK / clocks, "shared memory": counts["shared"] / clocks,
            bandwidth: counts["bytes"] / gpu["memory_tb_s" if bandwidth == "memory" else "l2_tb_s"] / 1e9}


def estimate(kernels, gpu, bandwidth):
    """Returns the time of kernels one after the other in ms, and what the longest one waits for."""
    total, longest = 0.0, (0.0, "")
    for counts in kernels.values():
        times = limits_ms(counts, gpu, bandwidth)
        limit = max(times, key=times.get)
        total += times[limit] + LAUNCH_MS * counts["launches"]
        longest = max(longest, (times[limit], limit))
    return total, longest[1]


def scaled(kernels, factor):
    """Counts of a larger problem, in as many launches."""
    return {name: {key: value if key == "launches" else value * factor for key, value in counts.items()}
            for name, counts in kernels.items()}


def attention_counts(args, kernel, width, forward):
    """Counts of one call for one head at two lengths, the second twice the first: by name, a pair."""
    head = width // 2 if kernel == "w2" else width
    options = ["--kernel", kernel, "--batch", 1, "--heads", 1, "--head-dim", head, "--precision", "bf16", "--warm-s", 0,
               "--time-s", 0, "--calls", 1, *(["--forward"] if forward else [])]
    small, large = (run(args.build, "attention", [*options, "--seq-len", n])[1] for n in (args.n, 2 * args.n))
    return {name: (small[name], large[name]) for name in small if name in large}


def at_length(pair, m, n, heads):
    """Counts at length n for `heads` heads, from those at m and 2 m."""
    def grown(x, y):  # x = a m + b m^2, y = 2 a m + 4 b m^2
        b = (y - 2 * x) / (2 * m * m)
        return heads * ((x / m - b * m) * n + b * n * n)

    return {**combine(pair, grown), "launches": pair[1]["launches"]}


def attention_figures(args, gpu):
    """Estimates of attention as scripts/gpu_check.py times it."""
    for kernel in ("softmax", "conformal", "w2"):
        for width in (64, 128):
            for forward in (True, False):
                pairs = attention_counts(args, kernel, width, forward)
                head = width // 2 if kernel == "w2" else width
                products = (width + head) if forward else 4 * width + 3 * head
                for n in (1024, 4096, 16384):
                    heads = 32768 // n * (2048 // width)
                    counts = {name: at_length(pair, args.n, n, heads) for name, pair in pairs.items()}
                    ms, limit = estimate(counts, gpu, "L2")
                    name = f"{kernel} d{width} n{n} {'forward' if forward else 'both'}"
                    yield name, {"ms": ms, "limit": limit, "tflop_s": 1e-9 * heads * n * n * products / ms}


def row_figures(args, gpu):
    """Estimates of passes over memory at n 8192."""
    n = 512
    for operation in ("copy", "add", "rms_norm", "rms_norm_backward", "rope", "polar", "swiglu", "sum", "adamw"):
        result, kernels = run(args.build, "operation", ["--operation", operation, "--n", n, "--time-s", 0])
        calls = 13  # three to warm up and ten
        once = {name: {key: value / calls for key, value in counts.items()} for name, counts in kernels.items()
                if counts["launches"] >= calls}
        ms, limit = estimate(scaled(once, (8192 / n) ** 2), gpu, "memory")
        yield f"{operation} 8192", {"ms": ms, "limit": limit, "gb_s": result["mbyte"] * (8192 / n) ** 2 / ms}


def product_figures(gpu):
    for precision in ("bf16", "f32"):
        speed = gpu[f"{precision}_tflop_s"]
        yield f"product {precision} 8192", {"ms": 2e-9 * 8192**3 / speed, "limit": "cuBLASLt", "tflop_s": speed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--gpu", choices=GPU_LIMITS, default="H200")
    parser.add_argument("--n", type=int, default=512, help="the shorter length of attention that is counted")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/gpu_estimates.json")
    args = parser.parse_args()
    gpu = GPU_LIMITS[args.gpu]
    figures = dict(product_figures(gpu))
    for found in (row_figures(args, gpu), attention_figures(args, gpu)):
        for name, figure in found:
            figures[name] = {key: round(value, 4) if isinstance(value, float) else value for key, value in figure.items()}
            number = figure.get("tflop_s") or figure.get("gb_s")
            print(f"| {name} | {figure['ms']:.3f} | {number:.0f} {'TFLOP/s' if 'tflop_s' in figure else 'GB/s'} | {figure['limit']} |",
                  flush=True)
    args.out.write_text(json.dumps({"gpu": args.gpu, "limits": gpu, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
