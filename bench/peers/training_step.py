"""Code shared by the PyTorch peers of ../mqar_step.cpp and ../lm_step.cpp: options, timing, the JSON line."""
import argparse
import contextlib
import json
import statistics
import time

import torch


def parse_options(description, sizes, add_choices):
    """Returns the options of a contender (../README.md): `sizes` maps the name of a number to its default, and
    add_choices(parser) adds the rest. Sets the number of threads and the seed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {**sizes, "warmup": 5, "steps": 10, "threads": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    add_choices(parser)
    parser.add_argument("--compile", action="store_true", help="torch.compile the forward pass and the loss")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    return args


def synchronize(device):
    """Waits for what was queued on a GPU."""
    if device == "cuda":
        torch.cuda.synchronize()


def device_mb(device):
    """The largest number of bytes that tensors took on a GPU, in MiB; 0 on the CPU."""
    return torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0


def peak_mb():
    """Peak resident memory of this process in MiB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024


def time_steps(step, args):
    """Returns the times of `steps` calls in ms, after `warmup` untimed calls."""
    times = []
    for _ in range(args.warmup + args.steps):
        begin = time.perf_counter()
        step()
        synchronize(args.device)
        times.append((time.perf_counter() - begin) * 1e3)
    return times[args.warmup :]


def measure(args, model, loss_of, batches, names, autocast=False):
    """Trains on the batches (arguments of loss_of), one per step in turn, and prints the JSON line, including `names`."""
    model.to(args.device)
    batches = [tuple(part.to(args.device) for part in batch) for batch in batches]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    if args.compile:
        loss_of = torch.compile(loss_of)
    losses = []

    def step():
        optimizer.zero_grad()
        with torch.autocast(args.device, torch.bfloat16) if autocast else contextlib.nullcontext():
            loss = loss_of(*batches[len(losses) % len(batches)])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    times = time_steps(step, args)
    print(json.dumps({**names, "ms": statistics.median(times), "ms_min": min(times), "peak_mb": peak_mb(),
                      "device_mb": device_mb(args.device),
                      "first_loss": losses[0], "last_loss": losses[-1], "version": torch.__version__,
                      "parameters": sum(p.numel() for p in model.parameters())}))
