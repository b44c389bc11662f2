"""Times one training step on multi-query associative recall in plain PyTorch and prints one JSON line.

The model is the usual recall Transformer: pre-norm blocks with LayerNorm, learned positions, causal softmax attention,
a GELU MLP of four times the width, biases, a head tied to the embedding, dropout after the embedding. A step is
forward, cross-entropy, backward and AdamW. Run it through ../run.py, which sets a fair environment for PyTorch.

    python3 mqar_step.py --head labelled --compile
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from training_step import measure, parse_options

IGNORED = -100  # the label of positions without a query


def mqar_batch(args, generator):
    """Returns key-value pairs, then each key once more, labelled with its value.

    Returns inputs [batch, seq], labels [batch, seq], and the flat indices and labels of the positions that ask.
    """
    def distinct(low, high):
        keys = torch.rand(args.batch, high - low, generator=generator)
        return low + keys.topk(args.pairs, dim=1).indices

    half = args.vocab // 2
    inputs = torch.randint(0, args.vocab, (args.batch, args.seq_len), generator=generator)
    labels = torch.full_like(inputs, IGNORED)
    keys, values = distinct(1, half), distinct(half, args.vocab)
    inputs[:, 0 : 2 * args.pairs : 2] = keys
    inputs[:, 1 : 2 * args.pairs : 2] = values
    slots = (args.seq_len - 2 * args.pairs) // 2
    queries = 2 * args.pairs + 2 * torch.rand(args.batch, slots, generator=generator).topk(args.pairs, dim=1).indices
    inputs.scatter_(1, queries, keys)
    labels.scatter_(1, queries, values)
    asked = (labels.flatten() != IGNORED).nonzero().squeeze(1)
    return inputs, labels, asked, labels.flatten()[asked]


class Attention(nn.Module):
    def __init__(self, d_model, heads, explicit):
        super().__init__()
        self.heads, self.explicit = heads, explicit
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        batch, n, d_model = x.shape
        q, k, v = (part.reshape(batch, n, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        if self.explicit:
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            future = torch.ones(n, n, dtype=torch.bool).triu(1)
            y = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, n, d_model))


class Block(nn.Module):
    def __init__(self, d_model, heads, explicit):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = Attention(d_model, heads, explicit)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocab, args.d_model)
        self.positions = nn.Embedding(args.seq_len, args.d_model)
        self.dropout = nn.Dropout(args.dropout)
        explicit = args.attention == "explicit"
        self.blocks = nn.Sequential(*(Block(args.d_model, args.heads, explicit) for _ in range(args.layers)))
        self.norm = nn.LayerNorm(args.d_model)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for block in self.blocks:
            for layer in (block.attention.proj, block.mlp[2]):
                nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * args.layers))

    def states(self, inputs):
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1], device=inputs.device))
        return self.norm(self.blocks(self.dropout(x))).flatten(0, 1)

    def loss_of_all(self, inputs, labels):
        """Logits of every position, as most training scripts compute them."""
        logits = F.linear(self.states(inputs), self.tokens.weight)
        return F.cross_entropy(logits, labels.flatten(), ignore_index=IGNORED)

    def loss_of_labelled(self, inputs, asked, targets):
        """Logits of the labelled positions only."""
        return F.cross_entropy(F.linear(self.states(inputs)[asked], self.tokens.weight), targets)


def add_choices(parser):
    parser.add_argument("--dropout", type=float, default=0.1, help="after the embedding")
    parser.add_argument("--head", choices=("all", "labelled"), default="all", help="the positions that get logits")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="bf16: under autocast")
    parser.add_argument("--attention", choices=("explicit", "sdpa"), default="explicit",
                        help="composed, or the fused function (slower at these sizes)")


def main():
    sizes = {"vocab": 8192, "d-model": 128, "layers": 2, "heads": 1, "seq-len": 256, "pairs": 16, "batch": 64}
    args = parse_options(__doc__, sizes, add_choices)
    generator = torch.Generator().manual_seed(0)
    model = Model(args)
    batches = [mqar_batch(args, generator) for _ in range(4)]
    if args.head == "all":
        loss_of, batches = model.loss_of_all, [(inputs, labels) for inputs, labels, _, _ in batches]
    else:
        loss_of, batches = model.loss_of_labelled, [(inputs, asked, targets) for inputs, _, asked, targets in batches]
    measure(args, model, loss_of, batches,
            {"name": f"PyTorch {'compiled' if args.compile else 'eager'}, {args.head} logits", "precision": args.precision},
            autocast=args.precision == "bf16")


if __name__ == "__main__":
    main()
