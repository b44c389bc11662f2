"""Times one training step of a GPT-style language model in plain PyTorch and prints one JSON line.

Pre-norm blocks with RMSNorm, rotary positions, causal softmax attention and SwiGLU (hidden width 8/3 of the model's), no
biases, a head tied to the embedding. A step is forward, cross-entropy of every position, backward and AdamW. Run it
through ../run.py, which sets a fair environment for PyTorch.

    python3 lm_step.py --attention sdpa --compile --precision bf16
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from training_step import measure, parse_options


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
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)    # autocast would continue in f32
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
        for name, table in zip(("cos", "sin"), rotation(args.seq_len, args.d_model // args.heads)):
            self.register_buffer(name, table)    # moves with the model
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def loss(self, inputs, labels):
        x = self.tokens(inputs)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(F.linear(self.norm(x), self.tokens.weight).flatten(0, 1), labels.flatten())


def random_tokens(args, generator):
    """Returns inputs and labels [batch, seq]: uniform tokens, each labelled with the next. Their values do not matter."""
    tokens = torch.randint(0, args.vocab, (args.batch, args.seq_len + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def add_choices(parser):
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="bf16: under autocast")
    parser.add_argument("--attention", choices=("sdpa", "explicit"), default="sdpa", help="the fused function, or composed")


def main():
    sizes = {"vocab": 256, "d-model": 384, "layers": 6, "heads": 6, "seq-len": 256, "batch": 8}
    args = parse_options(__doc__, sizes, add_choices)
    generator = torch.Generator().manual_seed(0)
    model = Model(args)
    batches = [random_tokens(args, generator) for _ in range(4)]
    attention = "" if args.attention == "sdpa" else ", explicit"
    names = {"name": f"PyTorch {'compiled' if args.compile else 'eager'}{attention}", "precision": args.precision}
    measure(args, model, model.loss, batches, names, autocast=args.precision == "bf16")


if __name__ == "__main__":
    main()
