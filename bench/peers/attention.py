"""Times causal attention alone, forward and backward or forward alone, in plain PyTorch and prints one JSON line.

The formulas are those of docs/MATH.md as a careful user would write them: scores as an explicit matrix, or PyTorch's
fused call. Run it through ../run.py, which sets a fair environment for PyTorch.

    python3 attention.py --kernel conformal --seq-len 1024 --compile
    python3 attention.py --check
"""
import argparse
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F


def additive_mask(x):
    """0 where query i sees key j (j <= i), -inf elsewhere, for queries x[..., n, d]."""
    n = x.shape[-2]
    return torch.full((n, n), float("-inf"), dtype=x.dtype, device=x.device).triu(1)


def softmax(q, k, v):
    """PyTorch's fused call."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def conformal(q, k, v, alpha):
    """Newton's kernel, s = (d-2)/2, over its mean on the sphere: no reduction over the keys. alpha[heads].

    A query becomes the point r * qhat inside the ball, a key the boundary point khat; u is the cosine between them.
    """
    n, d = q.shape[-2:]
    s = (d - 2) / 2
    length = q.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    beta = alpha.view(-1, 1, 1) * length / math.sqrt(d)
    r = beta / (torch.sqrt(s * s + beta * beta) + s)
    c = 2 * r / (1 - r) ** 2
    log_norm = 2 * s * torch.log1p(-r) + torch.arange(1, n + 1, dtype=q.dtype, device=q.device).log().view(n, 1)
    u = (q / length) @ F.normalize(k, dim=-1).transpose(-1, -2)
    return torch.exp(-s * torch.log1p(c * (1 - u)) - log_norm).tril() @ v


def rope(x, base=10000.0):
    """Rotates the pairs (x_t, x_{t+d/2}) by position * base^(-2t/d)."""
    n, d = x.shape[-2:]
    wide = torch.promote_types(x.dtype, torch.float32)    # bf16 holds no position above 256
    frequency = base ** (-torch.arange(0, d, 2, dtype=wide, device=x.device) / d)
    angle = torch.arange(n, dtype=wide, device=x.device).view(n, 1) * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def w2(q, k, v, tau):
    """Wasserstein-2 between diagonal Gaussians; q and k hold [mu ; raw sigma], twice as wide. tau[heads].

    The squared distances are expanded, so that no n x n x d array appears.
    """
    def point(x):
        mu, raw = x.chunk(2, dim=-1)
        return torch.cat((rope(mu), F.softplus(raw) + 1e-4), dim=-1)

    x, y = point(q), point(k)
    x_sq, y_sq = (x * x).sum(-1, keepdim=True), (y * y).sum(-1, keepdim=True)
    scores = (2 * (x @ y.transpose(-1, -2)) - x_sq - y_sq.transpose(-1, -2)) / (tau.view(-1, 1, 1) + 1e-6)
    return torch.softmax(scores + additive_mask(q), dim=-1) @ v


def linear(q, k, v, chunk=64):
    """elu(x) + 1 features, in chunks: quadratic within a chunk, with a running sum of k v^T between chunks."""
    batch, heads, n, d = q.shape
    chunk = math.gcd(chunk, n)
    q, k = F.elu(q) + 1, F.elu(k) + 1
    total = (q * k.cumsum(dim=-2)).sum(-1, keepdim=True) + 1e-6
    q, k, v = (x.reshape(batch, heads, n // chunk, chunk, x.shape[-1]) for x in (q, k, v))
    states = k.transpose(-1, -2) @ v
    before = torch.cat((torch.zeros_like(states[:, :, :1]), states.cumsum(dim=2)[:, :, :-1]), dim=2)
    out = (q @ k.transpose(-1, -2)).tril() @ v + q @ before
    return out.reshape(batch, heads, n, v.shape[-1]) / total


KERNELS = {"softmax": softmax, "conformal": conformal, "w2": w2, "linear": linear}
PARAMETERS = {"conformal": 1.0, "w2": 16.0}  # the learned number per head, if any


def pair_weights(kernel, parameter, q, k):
    """Returns a function (head, i, j) -> weight, straight from the formula, and whether rows are divided by their sum."""
    d = q.shape[-1]
    s = (d - 2) / 2

    def ball(h, i, j):
        beta = parameter[h] * q[0, h, i].norm() / math.sqrt(d)
        r = (torch.sqrt(s * s + beta * beta) - s) / beta
        return (1 + r * r - 2 * r * F.cosine_similarity(q[0, h, i], k[0, h, j], dim=0)) ** -s / (i + 1)

    def gaussians(x):
        mu, raw = x.chunk(2, dim=-1)
        return rope(mu), F.softplus(raw) + 1e-4

    def wasserstein(h, i, j):
        squares = sum((a[0, h, i] - b[0, h, j]).square().sum() for a, b in zip(gaussians(q), gaussians(k)))
        return torch.exp(-squares / (parameter[h] + 1e-6))

    return {"softmax": (lambda h, i, j: torch.exp(q[0, h, i] @ k[0, h, j] / math.sqrt(d)), True),
            "conformal": (ball, False), "w2": (wasserstein, True),
            "linear": (lambda h, i, j: (F.elu(q[0, h, i]) + 1) @ (F.elu(k[0, h, j]) + 1), True)}[kernel]


def check():
    """Compares every kernel in f64 with its formula, evaluated pair by pair; ends the program if one differs."""
    heads, n, d = 2, 12, 8
    for kernel, function in KERNELS.items():
        wide = 2 * d if kernel == "w2" else d
        q, k, v = (torch.randn(1, heads, n, width, dtype=torch.float64) for width in (wide, wide, d))
        parameter = torch.tensor([0.7, 2.0], dtype=torch.float64)
        weight, divide = pair_weights(kernel, parameter, q, k)
        want = torch.zeros_like(v)
        for h in range(heads):
            for i in range(n):
                row = torch.stack([weight(h, i, j) for j in range(i + 1)])
                want[0, h, i] = (row / row.sum() if divide else row) @ v[0, h, : i + 1]
        got = function(q, k, v, *([parameter] if kernel in PARAMETERS else []))
        error = (got - want).abs().max().item()
        print(f"{kernel:10} max error {error:.1e}")
        if not error < 1e-6:    # the denominator of linear has 1e-6 added
            raise SystemExit(f"{kernel} differs from its formula")


def memory_mb(field):
    """VmHWM (peak) or VmRSS (now) of this process in MiB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


def time_calls(call, seconds, least, device):
    """Returns the times of calls in ms. Makes at least `least` calls, for at least `seconds`."""
    times = []
    while len(times) < least or sum(times) < 1e3 * seconds:
        begin = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=KERNELS, default="softmax")
    for name, default in (("batch", 4), ("heads", 8), ("head-dim", 64), ("seq-len", 1024)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--warm-s", type=float, default=1.0, help="warm up for at least this long, and two calls")
    parser.add_argument("--time-s", type=float, default=2.0, help="time calls for at least this long, and three of them")
    parser.add_argument("--compile", action="store_true", help="torch.compile the function")
    parser.add_argument("--forward", action="store_true", help="time the forward pass alone")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="the type of all tensors")
    parser.add_argument("--check", action="store_true", help="compare the kernels with their formulas instead")
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.check:
        return check()

    base = memory_mb("VmRSS:")

    def heads(width):
        """Dense in this order, which saves the explicit products a copy."""
        return torch.randn(args.batch, args.heads, args.seq_len, width, **options, requires_grad=not args.forward)

    options = {"device": args.device, "dtype": torch.bfloat16 if args.precision == "bf16" else torch.float32}
    wide = (2 if args.kernel == "w2" else 1) * args.head_dim
    inputs = [heads(wide), heads(wide), heads(args.head_dim)]
    if args.kernel in PARAMETERS:
        inputs.append(torch.full((args.heads,), PARAMETERS[args.kernel], **options, requires_grad=not args.forward))
    grad = torch.randn(args.batch, args.heads, args.seq_len, args.head_dim, **options)
    function = torch.compile(KERNELS[args.kernel]) if args.compile else KERNELS[args.kernel]

    def call():
        out = function(*inputs)
        if not args.forward:
            torch.autograd.grad(out, inputs, grad)

    time_calls(call, args.warm_s, 2, args.device)
    times = time_calls(call, args.time_s, 3, args.device)
    device_mb = torch.cuda.max_memory_allocated() / 2**20 if args.device == "cuda" else 0
    setting = "fused" if args.kernel == "softmax" else "compiled" if args.compile else "eager"
    print(json.dumps({"name": f"PyTorch {setting}", "kernel": args.kernel, "n": args.seq_len,
                      "precision": args.precision, "pass": "forward" if args.forward else "both", "device_mb": device_mb,
                      "ms": statistics.median(times), "ms_min": min(times), "peak_mb": memory_mb("VmHWM:"),
                      "base_mb": base, "threads": torch.get_num_threads(), "version": torch.__version__}))


if __name__ == "__main__":
    main()
