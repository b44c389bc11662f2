#!/usr/bin/env python3
"""Registers, spills and shared memory of every CUDA kernel, by ptxas, and bounds on them.

  scripts/ptxas_report.py build/core/libmobius_core.a [--arch sm_90] [--kernels attention] [--json FILE]

Takes the PTX that the library holds (MOBIUS_CUDA_CODE with compute_80), assembles it for each architecture, prints a table
and exits with 1 if a kernel is out of bounds. Needs no GPU and no other part of the toolkit than ptxas.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]

# No kernel may spill registers to memory, with these exceptions: kernels whose name matches, the bytes that they may spill
# (stores and loads, as they stand in the code) and why. What attention in f32 or bf16 spills is to be mended, not excused.
MAY_SPILL = [
    (r"^(forward|backward_\w+|select)_kernel<double", 512,
     "f64 takes twice the registers, and attention in f64 serves gradient checks alone"),
    (r"^apply_kernel<", 800, "linear attention: half the registers, so that two blocks share a multiprocessor"),
    (r"^masked_softmax_kernel<float", 16, "around a call"),
    (r"^forward_kernel<float, true, scores::ConformalScore>", 40, "sm_80 alone, where ptxas stops at 128 registers"),
    (r"^tensor_forward<scores::ConformalScore, 128, 128>", 16, "sm_100 alone, at 255 registers"),
]

HEAD = b"\n.version "
KERNEL = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def modules(path):
    """The PTX texts in a file, which may be a program, a library or an object."""
    with open(path, "rb") as file:
        data = file.read()
    begin = data.find(HEAD)
    while begin >= 0:
        end = data.index(b"\0", begin)
        yield data[begin:end].decode()
        begin = data.find(HEAD, end)


def assemble(ptxas, text, arch):
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([ptxas, "-v", f"-arch={arch}", file.name, "-o", os.devnull],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ptxas_report: error: {ptxas} -arch={arch}: {done.stderr.strip()}")
    return kernels_of(done.stderr)


def kernels_of(log):
    kernels = []
    for line in log.splitlines():
        if found := KERNEL.search(line):
            kernels.append({"kernel": found[1], "arch": found[2], "registers": 0, "stack": 0, "spill_stores": 0,
                            "spill_loads": 0, "shared": 0})
        elif found := STACK.search(line):
            # What is said of a function that is not inlined would be counted as the kernel's before it, which calls it.
            last = kernels[-1]
            for key, value in zip(("stack", "spill_stores", "spill_loads"), found.groups()):
                last[key] = max(last[key], int(value))
        if found := USED.search(line):
            kernels[-1]["registers"] = int(found[1])
            shared = SHARED.search(line)
            kernels[-1]["shared"] = int(shared[1]) if shared else 0
    return kernels


def demangle(kernels):
    names = "\n".join(kernel["kernel"] for kernel in kernels)
    plain = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, check=True).stdout.splitlines()
    for kernel, name in zip(kernels, plain):
        kernel["kernel"] = short(name)


def short(name):
    """The name without what all kernels share: parameters, result and namespaces."""
    name = name.removeprefix("void ").replace("mobius::", "").replace("cuda::", "").replace("(anonymous namespace)::", "")
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">" and name[i - 1] != "-")
        if letter == "(" and depth == 0:
            return name[:i]
    return name


def allowed_spill(name):
    return max((most for pattern, most, _ in MAY_SPILL if re.search(pattern, name)), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--arch", action="append", help=f"default: {', '.join(ARCHITECTURES)}")
    parser.add_argument("--kernels", default="", help="a regular expression: only those whose name matches")
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    parser.add_argument("--json", help="write the table to this file, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()

    texts = list(modules(arguments.file))
    if not texts:
        sys.exit(f"ptxas_report: error: {arguments.file}: it holds no PTX; is compute_80 in MOBIUS_CUDA_CODE?")
    work = [(text, arch) for text in sorted(texts, key=len, reverse=True) for arch in arguments.arch or ARCHITECTURES]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found = pool.map(lambda item: assemble(arguments.ptxas, *item), work)
    kernels = [kernel for module in found for kernel in module]
    demangle(kernels)
    kernels = [kernel for kernel in kernels if re.search(arguments.kernels, kernel["kernel"])]
    kernels.sort(key=lambda kernel: (kernel["kernel"], int(kernel["arch"].removeprefix("sm_"))))

    print(f"{'arch':<7}{'registers':>9}{'stack':>7}{'spilled':>9}{'shared':>8}  kernel")
    failures = []
    for kernel in kernels:
        spilled = kernel["spill_stores"] + kernel["spill_loads"]
        is_bad = spilled > allowed_spill(kernel["kernel"])
        if is_bad:
            failures.append(kernel)
        print(f"{kernel['arch']:<7}{kernel['registers']:>9}{kernel['stack']:>7}{spilled:>9}{kernel['shared']:>8}"
              f"  {kernel['kernel']}{'  <- spills' if is_bad else ''}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(kernels, file, indent=1)
    print(f"{len(kernels)} kernels, of which {len(failures)} spill more than they may")
    return 1 if failures or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
