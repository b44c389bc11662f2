#!/usr/bin/env python3
"""Trains one configuration twice, concurrently: once without interruption, and once repeatedly ended at random moments, by
SIGKILL (`kill -9`), SIGTERM and SIGINT in turn, and restarted with `--resume auto`. Then checks that the two runs agree:

  - Every line of both metrics.jsonl (losses, test scores, learning rates, gradient norms, but not timing) is the same
    text: no number differs in a single bit, and no step is missing or repeated.
  - If both have finished, all parameters, as `mobius export` writes them, have the same bytes.
  - Every life that SIGTERM or SIGINT ended has saved: exit code 4, and the next life continues from its last step.
  - Memory does not grow: the resident memory of the uninterrupted run in its first and last third, and the peaks of the
    interrupted lives in the first and last third of them, differ by less than --memory-tolerance.

Prints PASS or FAIL and a summary, which is also in OUT/soak.json, and exits with 0 or 1. Linux only: it reads /proc.

  scripts/soak.py --config configs/lm/shakespeare_char.yaml --out runs/soak --minutes 120 --kill-every 120 300 \\
      -- train.max_steps=200000 checkpoint.every=200 train.threads=1

The arguments after `--` override the configuration in both runs. A life that is killed before its first checkpoint is repeated:
choose a `checkpoint.every` that gives several checkpoints per life. Pausing the processes (SIGSTOP) does no harm; Ctrl-C or
SIGTERM to this program also ends both runs.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

TIMING = "tokens_per_s"  # the only number of a line that is not a result
ENDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)  # end lives in turn
SAVED = 4  # the exit code of a run that was stopped, with everything saved


class SoakFailure(Exception):
    """A run ended in an unexpected way."""


class Interrupted(Exception):
    """A signal ends this program, which must end both runs first."""


class Run:
    """A process of `mobius train`. Writes its output to a file and samples its memory."""

    def __init__(self, command, log):
        self.log = pathlib.Path(log)
        self.resident = []  # MiB, one per sample
        self.peak = 0.0  # MiB
        self.begin = time.monotonic()
        self.seconds = None  # lifetime, after the end
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def is_running(self):
        """Whether the process is running. Samples its memory if so."""
        if self.process.poll() is None:
            self._sample()
            return True
        if self.seconds is None:
            self.seconds = time.monotonic() - self.begin
        return False

    def end(self, number):
        """Sends the signal, waits and returns the exit code, negative if a signal ended the process."""
        self._sample()
        self.process.send_signal(number)
        self.process.wait()
        self.is_running()
        return self.process.returncode

    def resumed_step(self):
        """Returns the step that the run resumed from, or None if it started from the beginning."""
        found = re.search(r"^resume: step (\d+) from", self.log.read_text(), re.MULTILINE)
        return int(found.group(1)) if found else None

    def saved_step(self):
        """Returns the step that the run saved when it was asked to stop, or None if it reported none."""
        found = re.search(r"^step (\d+): interrupted and saved", self.log.read_text(), re.MULTILINE)
        return int(found.group(1)) if found else None

    def skipped(self):
        """Returns the number of broken checkpoints that the run skipped."""
        return len(re.findall(r"^resume: skipped", self.log.read_text(), re.MULTILINE))

    def _sample(self):
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:  # the process has ended meanwhile
            return
        sizes = {key: int(kib) / 1024 for key, kib in re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", status, re.MULTILINE)}
        if "VmRSS" in sizes:
            self.resident.append(sizes["VmRSS"])
            self.peak = max(self.peak, sizes["VmHWM"])


class Soak:
    """The two runs, from the first life to the verdict."""

    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out)
        self.straight_dir = self.out / "straight"
        self.interrupted_dir = self.out / "interrupted"
        self.random = random.Random(options.seed)
        self.straight = None  # the uninterrupted run
        self.lives = []  # of the interrupted run
        self.ends = {number.name: 0 for number in ENDS}  # number of lives that each signal ended

    def train(self):
        """Runs until both have finished, or until --stop-after."""
        begin = time.monotonic()
        try:
            self.straight = straight = Run(self._command(self.straight_dir), self.out / "straight.log")
            life = self._new_life()
            end_at = self._next_end(begin)
            while straight.is_running() | life.is_running():
                now = time.monotonic()
                if self.options.stop_after and now - begin > 60 * self.options.stop_after:
                    self._stop(straight, life)
                elif end_at is not None and now >= end_at and life.is_running():
                    self._end(life)
                    life = self._new_life()
                    end_at = self._next_end(begin)
                time.sleep(self.options.sample_every)
        finally:
            for run in filter(None, (self.straight, *self.lives)):
                if run.process.poll() is None:
                    run.end(signal.SIGKILL)
        for run in (straight, life):
            self._require_good_end(run)
        self.minutes = (time.monotonic() - begin) / 60

    def verdict(self):
        """Returns the summary, with all errors in "faults"."""
        straight, interrupted = lines_of(self.straight_dir), lines_of(self.interrupted_dir)
        finished = all(run.process.returncode == 0 for run in (self.straight, self.lives[-1]))
        faults = differences(straight, interrupted, finished)
        if finished and parameters_of(self._export(self.straight_dir)) != parameters_of(self._export(self.interrupted_dir)):
            faults.append("the parameters of the last checkpoints differ")
        faults += self._lost_steps()
        memory = {"straight": thirds(self.straight.resident),
                  "interrupted, peak of each life": thirds([life.peak for life in self.lives if life.peak])}
        for name, (first, last) in memory.items():
            if last > first * (1 + self.options.memory_tolerance):
                faults.append(f"memory grows ({name}): {first:.1f} MiB in the first third, {last:.1f} MiB in the last")
        seconds = [life.seconds for life in self.lives]
        return {
            "verdict": "FAIL" if faults else "PASS",
            "faults": faults,
            "minutes": round(self.minutes, 2),
            "finished": finished,
            "ends": self.ends,
            "lives": len(self.lives),
            "shortest_life_s": round(min(seconds), 2),
            "longest_life_s": round(max(seconds), 2),
            "lives_from_a_checkpoint": sum(life.resumed_step() is not None for life in self.lives),
            "broken_checkpoints_skipped": sum(life.skipped() for life in self.lives),
            "last_step": {"straight": straight[-1]["step"], "interrupted": interrupted[-1]["step"]},
            "lines_compared": {"train": count(straight, interrupted, "train"), "test": count(straight, interrupted, "test")},
            "resident_mib_first_and_last_third": {name: [round(x, 2) for x in pair] for name, pair in memory.items()},
        }

    def _command(self, folder):
        options = self.options
        return [options.binary, "train", options.config, *options.overrides, "--out", str(folder), "--resume", "auto"]

    def _new_life(self):
        log = self.out / "lives" / f"{len(self.lives):04}.log"
        self.lives.append(Run(self._command(self.interrupted_dir), log))
        return self.lives[-1]

    def _next_end(self, begin):
        """Returns when to end the next life; None after --minutes, because the last one must finish."""
        at = time.monotonic() + self.random.uniform(*self.options.kill_every)
        return at if at - begin <= 60 * self.options.minutes else None

    def _end(self, life):
        n_ends = sum(self.ends.values())
        number = ENDS[n_ends % len(ENDS)]
        code = life.end(number)
        if code not in (-number, SAVED):
            return self._require_good_end(life)  # the run finished before the signal
        if code == -number and number != signal.SIGKILL and life.log.read_text():
            raise SoakFailure(f"{life.log}: {number.name} ended the run, and it did not save")
        self.ends[number.name] += 1
        print(f"{time.strftime('%H:%M:%S')} {number.name} ({n_ends + 1}) after {life.seconds:.1f} s, from step "
              f"{life.resumed_step() or 0}, {life.peak:.1f} MiB", flush=True)

    def _lost_steps(self):
        """Returns a message for each life whose saved steps the next one repeated."""
        return [f"{life.log}: saved step {life.saved_step()}, but the next life continued from {after.resumed_step()}"
                for life, after in zip(self.lives, self.lives[1:])
                if life.process.returncode == SAVED and after.log.read_text()  # else it ended before it started to train
                and life.saved_step() != after.resumed_step()]

    def _stop(self, *runs):
        for run in runs:
            if run.is_running():
                run.end(signal.SIGTERM)

    def _require_good_end(self, run):
        # -SIGTERM: the run was stopped before it handled signals.
        good = (0, SAVED, -signal.SIGTERM) if self.options.stop_after else (0,)
        if run.process.returncode not in good:
            raise SoakFailure(f"{run.log}: exit code {run.process.returncode}: {run.log.read_text()[-500:].strip()}")

    def _export(self, folder):
        newest = max((folder / "checkpoints").glob("step-*.h5"))
        file = folder / "parameters.safetensors"
        file.unlink(missing_ok=True)
        done = subprocess.run([self.options.binary, "export", newest, file], capture_output=True, text=True)
        if done.returncode != 0:
            raise SoakFailure(f"export of {newest}: {done.stderr.strip()}")
        return file


def lines_of(folder):
    """Returns the lines of metrics.jsonl without timing; numbers remain text."""
    text = (folder / "metrics.jsonl").read_text()
    lines = [json.loads(line, parse_float=str) for line in text.splitlines()]
    for line in lines:
        line.pop(TIMING, None)
    return lines


def differences(straight, interrupted, finished):
    """Returns the first difference, if any. Compares stopped runs up to the end of the shorter one."""
    for i, (a, b) in enumerate(zip(straight, interrupted)):
        if a != b:
            return [f"line {i + 1} of metrics.jsonl differs: {json.dumps(a)} without, {json.dumps(b)} with interruptions"]
    if not straight or not interrupted:
        return ["a metrics.jsonl is empty"]
    if finished and len(straight) != len(interrupted):
        return [f"{len(straight)} lines of metrics.jsonl without, {len(interrupted)} with interruptions"]
    return []


def count(straight, interrupted, split):
    common = straight[:min(len(straight), len(interrupted))]
    return sum(line["split"] == split for line in common)


def parameters_of(safetensors):
    """Returns the header without its metadata, which names the folder of the run, and the bytes after the header."""
    content = safetensors.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header.pop("__metadata__", None)
    return header, content[end:]


def thirds(values):
    """Returns the medians of the first and of the last third."""
    part = max(1, len(values) // 3)
    return statistics.median(values[:part]), statistics.median(values[-part:])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="YAML file")
    parser.add_argument("--out", required=True, help="a new folder, for both runs and the logs")
    parser.add_argument("--binary", default="build/mobius", help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=120, help="duration of interruptions; the last life then "
                        "finishes the configured steps (default: %(default)s)")
    parser.add_argument("--kill-every", type=float, nargs=2, default=[120, 300], metavar=("MIN", "MAX"),
                        help="lifetime in seconds, uniform in this range (default: 120 300)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the lifetimes (default: %(default)s)")
    parser.add_argument("--stop-after", type=float, default=0, metavar="MINUTES",
                        help="end both runs by SIGTERM after this time, and compare their common part")
    parser.add_argument("--sample-every", type=float, default=0.5, metavar="SECONDS",
                        help="interval between checks of the processes (default: %(default)s)")
    parser.add_argument("--memory-tolerance", type=float, default=0.05, metavar="SHARE",
                        help="accepted growth of memory (default: %(default)s)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="overrides of the configuration, after --")
    options = parser.parse_args()
    if not shutil.which(options.binary):
        parser.error(f"--binary {options.binary}: no such program")
    low, high = options.kill_every
    if not 0 < low <= high:
        parser.error(f"--kill-every {low:g} {high:g}: expected 0 < MIN <= MAX")
    if options.minutes < 0 or options.stop_after < 0 or options.sample_every <= 0:
        parser.error("--minutes and --stop-after must not be negative, --sample-every must be positive")
    try:
        pathlib.Path(options.out, "lives").mkdir(parents=True)
    except OSError as error:
        parser.error(f"--out {options.out}: expected a new folder: {error.strerror}")
    return options


def interrupt(number, _):
    signal.signal(number, signal.SIG_IGN)  # one is enough
    raise Interrupted(f"interrupted by {signal.Signals(number).name}; both runs have ended")


def main():
    options = parse_arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    soak = Soak(options)
    try:
        soak.train()
        summary = soak.verdict()
    except (SoakFailure, Interrupted) as failure:
        summary = {"verdict": "FAIL", "faults": [str(failure)], "ends": soak.ends, "lives": len(soak.lives)}
    pathlib.Path(options.out, "soak.json").write_text(json.dumps(summary, indent=2) + "\n")
    for name, value in summary.items():
        print(f"{name}: {value}")
    return 0 if summary["verdict"] == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
