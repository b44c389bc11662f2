#!/usr/bin/env python3
"""Checks Mobius on a machine with a GPU, within a given time: `make gpu-check`.

    scripts/gpu_check.py                          # builds, tests, measures; 8 minutes in all
    scripts/gpu_check.py --minutes 4 --skip-build # only what fits
    scripts/gpu_check.py --device cpu --quick     # the same road on a machine without one, to try the script itself

In this order, each within its share of the time: the build; the tests on the device; the losses of 100 training steps
beside those of the CPU; compute-sanitizer if it is installed; figures. What did not fit is named. Everything is written to
gpu-check.json, and a table shows the figures beside PyTorch's, if it is installed (MOBIUS_PEER_PYTHON names its interpreter),
and beside the estimates of docs/gpu_estimates.json. The exit code is 0 if the tests passed and the losses agree.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ("mobius", "core_tests", "autograd_tests", "nn_tests", "golden_tests", "attention", "lm_step", "mqar_step", "operation")
LOSS_TOLERANCE = {"f32": 1e-3, "bf16": 3e-2}  # relative, over 100 steps: rounding grows with the steps
GPT2 = {"vocab": 50304, "d-model": 768, "layers": 12, "heads": 12, "seq-len": 1024, "batch": 16}
MQAR = {"vocab": 8192, "d-model": 128, "layers": 2, "heads": 1, "seq-len": 256, "pairs": 16, "batch": 64}
TOKENS_OF_ATTENTION = 32768  # batch times length, at each length


class Clock:
    """The time that is left of the whole check."""

    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes

    def left(self):
        return max(self.end - time.monotonic(), 0)


def run(command, seconds, **options):
    """Returns the finished process, or None if it took longer than `seconds`; prints what failed."""
    try:
        return subprocess.run([str(part) for part in command], timeout=max(seconds, 1), text=True, **options)
    except subprocess.TimeoutExpired:
        print(f"  not finished within {seconds:.0f} s: {' '.join(map(str, command))}", flush=True)
        return None


def build(args, clock):
    print("== build", flush=True)
    begin = time.monotonic()
    done = run([ROOT / "scripts/build.sh", "release", args.jobs, *TARGETS], clock.left())
    if done is None or done.returncode != 0:
        sys.exit("gpu-check: the build failed")
    return round(time.monotonic() - begin, 1)


def describe(args):
    """Returns the lines of `mobius info`, and prints them."""
    done = run([args.build / "mobius", "info"], 30, stdout=subprocess.PIPE)
    print(done.stdout if done else "")
    return done.stdout.splitlines() if done else []


def check_tests(args, clock):
    """Runs the tests on the device. Returns what came of them."""
    print("== tests on the device", flush=True)
    seconds = min(0.4 * clock.left(), 150)
    command = ["ctest", "--test-dir", args.build, "-L", "^gpu$", "--parallel", max(args.jobs // 2, 1), "--output-on-failure"]
    if args.device == "cpu":
        command[4] = "^golden$"
    begin = time.monotonic()
    done = run(command, seconds, stdout=subprocess.PIPE)
    if done is None:
        return {"passed": False, "what": "out of time"}
    lines = done.stdout.splitlines()
    print("\n".join(lines[-15:]), flush=True)
    return {"passed": done.returncode == 0, "seconds": round(time.monotonic() - begin, 1),
            "failed": [line.strip() for line in lines if "***" in line]}


def losses(args, folder, device, precision):
    """Returns the loss of every step of a short run, or None."""
    out = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "run"
    settings = {"train.max_steps": args.steps, "train.log_every": 1, "eval.every": args.steps, "schedule.warmup_steps": 10,
                "task.n_test": 16, "train.device": device,
                "train.precision": precision, "output.dir": out, "train.batch_size": 16}
    done = run([args.build / "mobius", "train", ROOT / "configs/recall/mqar_conformal.yaml",
                *[f"{key}={value}" for key, value in settings.items()]], 120,
               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done is None or done.returncode != 0:
        print("  " + (done.stderr.strip().splitlines() or ["no message"])[-1] if done else "")
        return None
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["split"] == "train"]


def check_losses(args, clock):
    """Trains alike on the CPU and on the device. Returns the largest relative difference of the losses."""
    print(f"== losses of {args.steps} training steps, beside the CPU's", flush=True)
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        want = losses(args, folder, "cpu", "f32")
        for precision, tolerance in LOSS_TOLERANCE.items():
            got = losses(args, folder, args.device, precision) if clock.left() > 60 else None
            if not want or not got or len(got) != len(want):
                result[precision] = {"passed": False}
                continue
            difference = max(abs(a - b) / abs(b) for a, b in zip(got, want))
            result[precision] = {"passed": difference <= tolerance, "difference": difference, "first": got[0], "last": got[-1]}
            print(f"  {precision}: from {got[0]:.4f} to {got[-1]:.4f}, largest relative difference {difference:.1e}"
                  f" (at most {tolerance:.0e})", flush=True)
    return result


def check_memory(args, clock):
    """Runs a few tests under compute-sanitizer. Returns what it said, or why it did not run."""
    print("== compute-sanitizer", flush=True)
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not tool:
        print("  not installed", flush=True)
        return "not installed"
    done = run([tool, "--tool", "memcheck", "--error-exitcode", "9", args.build / "tests/core_tests",
                "--gtest_filter=*Attention*Golden*:*Norm*:*Softmax*"], min(40, 0.2 * clock.left()),
               env={**os.environ, "MOBIUS_TEST_DEVICE": args.device}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done is None:
        return "out of time"
    said = [line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line]
    print("  " + (said or ["no summary"])[-1], flush=True)
    return (said or ["no summary"])[-1]


def peer_python(args):
    """Returns the interpreter whose PyTorch can use the device, or None."""
    python = os.environ.get("MOBIUS_PEER_PYTHON", "python3")
    probe = f"import torch; assert {args.device == 'cpu'} or torch.cuda.is_available(); print(torch.__version__)"
    if not shutil.which(python):
        return None
    done = run([python, "-c", probe], 60, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return python if done and done.returncode == 0 else None


def options_of(sizes):
    return [text for key, value in sizes.items() for text in (f"--{key}", str(value))]


def figures(args):
    """Yields (name, program, options, has a peer): what is measured, the most important first."""
    n = 1024 if args.quick else 8192
    common = ["--device", args.device]
    for precision in ("bf16", "f32"):
        yield f"product {precision} {n}", "operation", ["--operation", "product", "--n", n, "--precision", precision, *common], True
    yield f"copy {n}", "operation", ["--operation", "copy", "--n", n, *common], False
    gpt2 = {**GPT2, "batch": 1, "seq-len": 64} if args.quick else GPT2
    yield "gpt2 bf16", "lm_step", [*options_of(gpt2), "--precision", "bf16", "--steps", 5, "--warmup", 2, *common], True
    lengths = (256,) if args.quick else (4096, 16384, 1024)
    for length in lengths:
        for width in (64, 128):
            for kernel in ("softmax", "conformal", "w2"):
                for direction in (["--forward"], []):
                    head = width // 2 if kernel == "w2" else width  # W2's queries are twice as wide as its values
                    sizes = {"batch": 1 if args.quick else TOKENS_OF_ATTENTION // length, "heads": 1 if args.quick else 2048 // width,
                             "head-dim": head, "seq-len": length}
                    name = f"{kernel} d{width} n{length} {'forward' if direction else 'both'}"
                    yield name, "attention", [*options_of(sizes), "--kernel", kernel, "--precision", "bf16", "--warm-s", 0.05,
                                              "--time-s", 0.2, *direction, *common], True
    yield "mqar bf16", "mqar_step", [*options_of(MQAR), "--precision", "bf16", "--steps", 10, *common], True
    yield "gpt2 conformal bf16", "lm_step", [*options_of(gpt2), "--attention", "conformal", "--precision", "bf16", "--steps", 5,
                                             "--warmup", 2, *common], False
    for operation in ("add", "rms_norm", "rms_norm_backward", "rope", "polar", "swiglu", "sum", "adamw"):
        yield f"{operation} {n}", "operation", ["--operation", operation, "--n", n, *common], False


def measure_one(command, seconds):
    """Returns the JSON object on the last line, or None."""
    done = run(command, seconds, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done is None:
        return None
    if done.returncode != 0:
        print(f"  failed: {' '.join(map(str, command))}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(args, clock):
    """Returns the figures by name, each with ours and PyTorch's, and the names of those for which there was no time."""
    print("== figures", flush=True)
    python, results, left_out = peer_python(args), {}, []
    print(f"  PyTorch: {'beside ours' if python else 'not installed for this device'}", flush=True)
    for name, program, options, has_peer in figures(args):
        if clock.left() < 15:
            left_out.append(name)
            continue
        ours = measure_one([args.build / "bench" / program, *options], min(60, clock.left() - 5))
        results[name] = {"ours": ours}
        if has_peer and python and clock.left() > 15:
            peer = [python, ROOT / "bench/peers" / f"{program}.py", *options]
            results[name]["peer"] = measure_one(peer, min(60, clock.left() - 5))
        if ours:
            print(f"  {name}: {ours['ms']:.4g} ms", flush=True)
    return results, left_out


def speed(result):
    """Returns (number, unit) of a figure: TFLOP/s where products are counted, else GB/s, else ms."""
    if result.get("gflop"):
        return result["gflop"] / result["ms"], "TFLOP/s"
    if result.get("mbyte"):
        return result["mbyte"] / result["ms"], "GB/s"
    return result["ms"], "ms"


def print_table(results, estimates):
    """One row a figure: ours, PyTorch's time over ours, and the estimate."""
    print(f"\n{'':32}{'ms':>10}{'speed':>10} {'':8}{'PyTorch ms':>11}{'x ours':>8}{'estimated ms':>14}")
    for name, result in results.items():
        ours, peer = result["ours"], result.get("peer")
        if not ours:
            print(f"{name:32}{'failed':>10}")
            continue
        number, unit = speed(ours)
        line = f"{name:32}{ours['ms']:10.3f}{number:10.1f} {unit:8}"
        line += f"{peer['ms']:11.3f}{peer['ms'] / ours['ms']:8.2f}" if peer else f"{'-':>11}{'':8}"
        expected = estimates.get(name, {}).get("ms")
        print(line + (f"{expected:14.3f}" if expected else f"{'-':>14}"))


def gpt2_remarks(results, peak):
    """Tokens a second and the share of the measured peak of products, of the steps of a GPT-2-shaped model."""
    for name, result in results.items():
        ours = result["ours"]
        if not name.startswith("gpt2") or not ours:
            continue
        tokens = GPT2["batch"] * GPT2["seq-len"]
        line = f"{name}: {tokens / ours['ms'] * 1e3:,.0f} tokens/s, {ours['device_mb']:,.0f} MiB on the device"
        print(line + (f", {100 * ours['gflop'] / ours['ms'] / peak:.0f} % of the products' speed" if peak else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--device", default="cuda", help="what is checked: cuda, or cpu to try the script")
    parser.add_argument("--steps", type=int, default=100, help="training steps whose losses are compared")
    parser.add_argument("--skip-build", action="store_true")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("gpu-check.json"))
    args = parser.parse_args()
    clock = Clock(args.minutes)
    report = {"minutes": args.minutes}
    if not args.skip_build:
        report["build_s"] = build(args, clock)
    report["machine"] = describe(args)
    report["tests"] = check_tests(args, clock)
    report["losses"] = check_losses(args, clock)
    report["sanitizer"] = check_memory(args, clock)
    report["figures"], report["left_out"] = measure(args, clock)
    args.json.write_text(json.dumps(report, indent=1) + "\n")

    estimates = ROOT / "docs/gpu_estimates.json"
    print_table(report["figures"], json.loads(estimates.read_text())["figures"] if estimates.exists() else {})
    product = next((r["ours"] for name, r in report["figures"].items() if name.startswith("product bf16") and r["ours"]), None)
    if not args.quick:
        gpt2_remarks(report["figures"], speed(product)[0] if product else 0)
    if report["left_out"]:
        print(f"no time for: {', '.join(report['left_out'])}")
    good = report["tests"]["passed"] and all(loss["passed"] for loss in report["losses"].values())
    print(f"gpu-check: {'passed' if good else 'FAILED'}; everything is in {args.json}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
