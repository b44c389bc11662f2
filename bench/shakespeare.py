#!/usr/bin/env python3
"""Trains the small character model of nanoGPT's README on Shakespeare from end to end, with Mobius and with nanoGPT's code.

    git clone https://github.com/karpathy/nanoGPT
    MOBIUS_PEER_PYTHON=venv/bin/python3 python3 bench/shakespeare.py --nanogpt nanoGPT --text tinyshakespeare.txt

Needs PyTorch, numpy and requests (which nanoGPT's data preparation imports). All train 2000 iterations of 12 windows of 64
characters, nanoGPT in f32, each in a fresh process with the settings of run.py. Total is the wall time of the process, for
reading the text or its tokens, training, evaluation and saving. nanoGPT evaluates on 480 windows nine times, Mobius on all
1742 of the validation text three times, which is a little more. ms/step is the median, without evaluation. The validation
loss is the final one: over all windows for Mobius, and for nanoGPT its own estimate over 2400 random ones, afterwards.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS = 12 * 64    # per step
# The flags of nanoGPT's README for a CPU. It saves at each evaluation, to evaluate the last weights again.
FLAGS = ["config/train_shakespeare_char.py", "--device=cpu", "--log_interval=1", "--block_size=64", "--batch_size=12",
         "--n_layer=4", "--n_head=4", "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0",
         "--always_save_checkpoint=True"]


def finish(command, environment, folder=None):
    """Returns the result of run_process; ends the program if the command fails."""
    done = run.run_process(command, environment, folder)
    if done is None:
        sys.exit(1)
    return done


def mobius(binary, text, folder, overrides):
    """Returns (validation loss, ms per step, seconds, others) of a run of Mobius."""
    command = [binary, "train", str(ROOT / "configs/lm/shakespeare_char.yaml"), f"task.text={text}", "eval.every=700",
               "--out", str(folder), *overrides]
    _, seconds, others = finish(command, {**os.environ, "OMP_NUM_THREADS": str(run.cores())})
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    speeds = [line["tokens_per_s"] for line in lines if line["split"] == "train"]
    loss = [line["loss"] for line in lines if line["split"] == "test"][-1]
    return loss, 1e3 * TOKENS / statistics.median(speeds), seconds, others


def prepare(python, nanogpt, text):
    """Makes nanoGPT's token files of the text with its own program, which would download a text if there were none."""
    folder = nanogpt / "data/shakespeare_char"
    shutil.copyfile(text, folder / "input.txt")
    finish([python, "prepare.py"], os.environ, folder)


def nanogpt(python, folder, out, compiled):
    """Returns (validation loss, ms per step, seconds, others) of a run of nanoGPT."""
    command = [python, "train.py", *FLAGS, f"--out_dir={out}", f"--compile={compiled}"]
    environment = run.peer_environment(run.find_jemalloc())
    output, seconds, others = finish([*command, "--eval_iters=20"], environment, folder)
    ms = statistics.median(float(ms) for ms in re.findall(r"^iter .* time ([0-9.]+)ms", output, re.MULTILINE))
    output, *_ = finish([*command, "--compile=False", "--eval_iters=200", "--init_from=resume"], environment, folder)
    loss = float(re.findall(r"^step 2000: .* val loss ([0-9.]+)", output, re.MULTILINE)[-1])
    return loss, ms, seconds, others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nanogpt", type=pathlib.Path, required=True, help="a clone of the nanoGPT repository")
    parser.add_argument("--text", type=pathlib.Path, required=True, help="tinyshakespeare")
    parser.add_argument("--mobius", default=str(ROOT / "build/mobius"), help="the binary")
    parser.add_argument("--wait-s", type=float, default=30.0, help="longest wait for an idle machine")
    args = parser.parse_args()
    for option, path, good in (("--text", args.text, args.text.is_file()),
                               ("--nanogpt", args.nanogpt, (args.nanogpt / "data/shakespeare_char/prepare.py").is_file()),
                               ("--mobius", args.mobius, shutil.which(args.mobius))):
        if not good:
            parser.error(f"{option} {path}: {'no such program' if option == '--mobius' else 'not found'}")
    python, text = run.peer_python(), args.text.resolve()
    if not python:
        sys.exit(1)
    prepare(python, args.nanogpt, text)
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch)
        contenders = {
            "Mobius": lambda: mobius(args.mobius, text, out / "f32", []),
            "Mobius, bf16": lambda: mobius(args.mobius, text, out / "bf16", ["train.precision=bf16"]),
            "nanoGPT": lambda: nanogpt(python, args.nanogpt, out / "eager", False),
            "nanoGPT, compiled": lambda: nanogpt(python, args.nanogpt, out / "compiled", True)}
        print(f"{'':18}  {'val loss':>8}  {'ms/step':>9}  {'total s':>8}  {'x step':>7}  {'x total':>7}")
        ours = None
        for name, train in contenders.items():
            run.wait_quiet(args.wait_s)
            loss, ms, seconds, others = train()
            ours = ours or (ms, seconds)
            print(f"{name:18}  {loss:8.4f}  {ms:9.2f}  {seconds:8.1f}  {ms / ours[0]:7.2f}  {seconds / ours[1]:7.2f}" +
                  run.disturbance(others), flush=True)


if __name__ == "__main__":
    main()
