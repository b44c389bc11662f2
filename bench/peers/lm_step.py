"""Times one training step of a GPT-style language model in plain PyTorch and prints one JSON line.

Pre-norm blocks with RMSNorm, rotary positions, causal softmax attention and SwiGLU (hidden width 8/3 of the model's), no
biases, a head tied to the embedding. A step is forward, cross-entropy of every position, backward and AdamW. Run it
through ../run.py, which sets the environment that is fair to PyTorch.

    python3 lm_step.py --attention sdpa --compile --precision bf16
"""
import argparse
import contextlib
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


def rotation(n, dim, base=10000.0):
    """cos and sin [n, dim / 2] of position * base^(-2t/dim)."""
    frequency = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angle = torch.arange(n, dtype=torch.float32).view(n, 1) * frequency
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    """Rotates the pairs (x_t, x_{t+dim/2})."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, d_model, heads, explicit):
        super().__init__()
        self.heads, self.explicit = heads, explicit
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, cos, sin):
        batch, n, d_model = x.shape
        q, k, v = (part.reshape(batch, n, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)    # autocast would go on in f32
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.explicit:
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            future = torch.ones(n, n, dtype=torch.bool).triu(1)
            y = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, n, d_model))


class SwiGlu(nn.Module):
    def __init__(self, d_model, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(d_model, hidden, bias=False), nn.Linear(d_model, hidden, bias=False)
        self.down = nn.Linear(hidden, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, d_model, heads, explicit):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(d_model, eps=1e-6), nn.RMSNorm(d_model, eps=1e-6)
        self.attention = Attention(d_model, heads, explicit)
        self.mlp = SwiGlu(d_model, 8 * d_model // 3)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocab, args.d_model)
        explicit = args.attention == "explicit"
        self.blocks = nn.ModuleList(Block(args.d_model, args.heads, explicit) for _ in range(args.layers))
        self.norm = nn.RMSNorm(args.d_model, eps=1e-6)
        self.cos, self.sin = rotation(args.seq_len, args.d_model // args.heads)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def loss(self, inputs, labels):
        x = self.tokens(inputs)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(F.linear(self.norm(x), self.tokens.weight).flatten(0, 1), labels.flatten())


def random_tokens(args, generator):
    """Inputs and labels [batch, seq]: uniform tokens, each labelled with the next. The time does not depend on them."""
    tokens = torch.randint(0, args.vocab, (args.batch, args.seq_len + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def peak_mb():
    """Peak resident memory of this process in MiB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024


def time_steps(step, args):
    """Times of `steps` calls in ms, after the first `warmup` calls."""
    times = []
    for _ in range(args.warmup + args.steps):
        begin = time.perf_counter()
        step()
        times.append((time.perf_counter() - begin) * 1e3)
    return times[args.warmup :]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("vocab", 256), ("d-model", 384), ("layers", 6), ("heads", 6), ("seq-len", 256), ("batch", 8),
                          ("warmup", 5), ("steps", 10), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="bf16: under autocast")
    parser.add_argument("--attention", choices=("sdpa", "explicit"), default="sdpa", help="the fused function, or composed")
    parser.add_argument("--compile", action="store_true", help="torch.compile the forward pass and the loss")
    args = parser.parse_args()

    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Model(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    loss_of = torch.compile(model.loss) if args.compile else model.loss
    batches = [random_tokens(args, generator) for _ in range(4)]
    losses = []

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext():
            loss = loss_of(*batches[len(losses) % len(batches)])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    times = time_steps(step, args)
    attention = "" if args.attention == "sdpa" else ", explicit"
    print(json.dumps({"name": f"PyTorch {'compiled' if args.compile else 'eager'}{attention}", "precision": args.precision,
                      "ms": statistics.median(times), "ms_min": min(times), "peak_mb": peak_mb(),
                      "first_loss": losses[0], "last_loss": losses[-1], "version": torch.__version__,
                      "parameters": sum(p.numel() for p in model.parameters())}))


if __name__ == "__main__":
    main()
