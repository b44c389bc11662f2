#!/usr/bin/env python3
"""Golden cases for every formula in docs/MATH.md, computed in float64.

One HDF5 file per operation; one group per case:
    attrs            scalar parameters (numbers, strings, 0/1 flags)
    in/NAME          inputs
    out/NAME         expected outputs
    cot/NAME         cotangents: L = sum over outputs of <out, cot>
    grad/NAME        dL/d in/NAME, for the inputs that are differentiable

Needs python3 with torch, numpy, scipy, h5py.   make_golden.py [--seed 0] [--out DIR]
"""
import argparse, math, os
import h5py, numpy as np, torch
import torch.nn.functional as F
from scipy.special import hyp2f1

torch.set_default_dtype(torch.float64)
EPS = 1e-12


# ---------------------------------------------------------------- conformal
def exponents(weight, d, s=None, gamma=None):
    if weight == "newton":
        return ((d - 2) / 2, 0.0) if d > 2 else (1.0, 1.0)
    if weight == "poisson":
        return d / 2, 1.0
    if weight == "jacobian":
        return d - 1.0, d - 1.0
    return float(s), float(gamma or 0.0)


def unit(x):
    return x / x.norm(dim=-1, keepdim=True).clamp_min(EPS)


def safe_norm(x):
    """|x| with gradient 0 at x = 0."""
    sq = (x * x).sum(-1, keepdim=True)
    return torch.where(sq > 0, sq.clamp_min(1e-300).sqrt(), torch.zeros_like(sq))


def embed(q, k, alpha, s, r_max=0.99999):
    d = q.shape[-1]
    beta = alpha * safe_norm(q) / math.sqrt(d)
    r = (beta / ((s * s + beta * beta).sqrt() + s)).clamp_max(r_max)
    return r, q / safe_norm(q).clamp_min(EPS), k / safe_norm(k).clamp_min(EPS)


def log_kt(r, u, s):
    return -s * torch.log1p(2 * r / (1 - r) ** 2 * (1 - u))


class Log2F1(torch.autograd.Function):
    """log 2F1(s, s-d/2+1; d/2; r^2) and its derivative in r."""
    @staticmethod
    def forward(ctx, r, s, d):
        a, b, c, z = s, s - d / 2 + 1, d / 2, (r * r).numpy()
        f = hyp2f1(a, b, c, z)
        ctx.save_for_backward(torch.as_tensor(a * b / c * hyp2f1(a + 1, b + 1, c + 1, z) / f) * 2 * r)
        return torch.as_tensor(np.log(f))

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None, None


def log_z(r, weight, d, s, gamma):
    if weight == "custom":
        return 2 * s * torch.log1p(-r) + Log2F1.apply(r, s, d)
    return 2 * s * torch.log1p(-r) - gamma * torch.log1p(-r * r)


def visible(nq, nk, causal, mask=None):
    allow = torch.ones(nq, nk, dtype=torch.bool)
    if causal:
        allow = torch.arange(nk)[None, :] <= torch.arange(nq)[:, None] + (nk - nq)
    return allow if mask is None else allow & mask.bool()


def conformal(q, k, v, alpha, weight="newton", normalize="analytic", causal=False, mask=None, s=None, gamma=None):
    d = q.shape[-1]
    s, gamma = exponents(weight, d, s, gamma)
    r, qh, z = embed(q, k, alpha, s)
    lw = log_kt(r, qh @ z.transpose(-1, -2), s)
    allow = visible(q.shape[-2], k.shape[-2], causal, mask)
    count = allow.sum(-1, keepdim=True).clamp_min(1).double()
    if normalize == "analytic":
        lw = (lw - log_z(r, weight, d, s, gamma) - count.log()).clamp_max(80.0)
    w = torch.where(allow, lw.exp(), torch.zeros(()))
    if normalize == "empirical":
        w = w / w.sum(-1, keepdim=True).clamp_min(1e-300)
    return w @ v


def hierarchical(q, k, v, xi, alpha, weight, window, r_far, ridge, normalize):
    d, n = q.shape[-1], q.shape[-2]
    s, gamma = exponents(weight, d)
    r, qh, z = embed(q, k, alpha, s)
    xi = unit(xi)
    rf = torch.full((1, 1), r_far)
    gram = log_kt(rf, xi @ xi.transpose(-1, -2), s).exp()
    psi = log_kt(rf, z @ xi.transpose(-1, -2), s).exp()
    rc = r.clamp_max(r_far)
    a = torch.linalg.solve(gram + ridge * torch.eye(xi.shape[-2]),
                           log_kt(rc, qh @ xi.transpose(-1, -2), s).exp().transpose(-1, -2)).transpose(-1, -2)
    lz, lzc = log_z(r, weight, d, s, gamma), log_z(rc, weight, d, s, gamma)
    near = log_kt(r, qh @ z.transpose(-1, -2), s).exp()
    far = (a @ psi.transpose(-1, -2)) * (lz - lzc).exp()
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    w = torch.where((j <= i) & (j > i - window), near, torch.zeros(())) + torch.where(j <= i - window, far, torch.zeros(()))
    if normalize == "analytic":
        w = w * (-lz).exp() / (i + 1)
    return w @ v


# ---------------------------------------------------------------- baselines
def softmax_attn(s, v, allow):
    s = s.masked_fill(~allow, -math.inf)
    p = torch.softmax(s, -1)
    p = torch.where(allow.any(-1, keepdim=True), p, torch.zeros(()))
    return torch.nan_to_num(p) @ v


def kernelised(fq, fk, v, allow, eps):
    w = (fq @ fk.transpose(-1, -2)) * allow
    return (w @ v) / (w.sum(-1, keepdim=True) + eps)


def performer(q, k, v, omega, allow):
    """Without the range shift c: it cancels in exact arithmetic up to the tiny 1e-6 offsets, so none is added here."""
    d, m = q.shape[-1], omega.shape[0]
    f = lambda x: torch.exp(x @ omega.T / d ** 0.25 - (x * x).sum(-1, keepdim=True) / (2 * d ** 0.5)) / m ** 0.5
    return kernelised(f(q), f(k), v, allow, 0.0)


def sparse_allow(pattern, scores, n, window, stride, n_global, topk, causal):
    allow = visible(n, n, causal)
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    local = (i - j).abs() < window
    if pattern == "local":
        return allow & local
    if pattern == "strided":
        return allow & (local | ((i - j) % stride == 0) | (j < n_global))
    s = scores.detach().masked_fill(~allow, -math.inf)
    keep = torch.zeros_like(s, dtype=torch.bool).scatter(-1, s.topk(min(topk, n), -1).indices, True)
    return allow & keep


# ---------------------------------------------------------------- parts
def rope(x, base=10000.0, offset=0):
    d, n = x.shape[-1], x.shape[-2]
    ang = (torch.arange(n) + offset)[:, None] * base ** (-2 * torch.arange(d // 2) / d)
    c, s = torch.cat([ang.cos()] * 2, -1), torch.cat([ang.sin()] * 2, -1)
    return x * c + torch.cat([-x[..., d // 2:], x[..., : d // 2]], -1) * s


def rms_norm(x, w, eps=1e-6):
    return w * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)


def swiglu(x, wg, wu, wd):
    return (F.silu(x @ wg.T) * (x @ wu.T)) @ wd.T


def alibi_slopes(h):
    p = 2 ** math.floor(math.log2(h))
    geo = lambda n: [2 ** (-8 * (t + 1) / n) for t in range(n)]
    return torch.tensor(geo(p) + geo(2 * p)[0::2][: h - p])


def heads(x, h):
    b, n, c = x.shape
    return x.view(b, n, h, c // h).transpose(1, 2)


def merge(x):
    b, h, n, d = x.shape
    return x.transpose(1, 2).reshape(b, n, h * d)


def position_bias(pos, h, n, rel=None):
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    if pos == "alibi":
        return -alibi_slopes(h)[:, None, None] * (i - j).abs()
    if pos == "relative":
        m = (rel.shape[0] - 1) // 2
        return rel[(i - j).clamp(-m, m) + m]
    return torch.zeros(())


def w2_attention(x, wq, wk, wv, wo, raw_tau, h, kind, pos, causal, rel=None):
    b, n, c = x.shape
    d = c // h
    q, k, v = heads(x @ wq.T, h), heads(x @ wk.T, h), heads(x @ wv.T, h)
    mq, sq = q[..., :d], F.softplus(q[..., d:]) + 1e-4
    mk, sk = k[..., :d], F.softplus(k[..., d:]) + 1e-4
    if kind == "w2_overlap":
        mq, mk = mq / sq.sqrt(), mk / sk.sqrt()
    if pos == "rope":
        mq, mk = rope(mq), rope(mk)
    dist = lambda a, c: ((a[..., :, None, :] - c[..., None, :, :]) ** 2).sum(-1)
    if kind == "w2":
        s = -(dist(mq, mk) + dist(sq, sk)) / (F.softplus(raw_tau)[:, None, None] + 1e-6)
    else:
        s = -0.5 * (dist(mq, mk) + sq.log().sum(-1)[..., :, None] + sk.log().sum(-1)[..., None, :])
    s = s + position_bias(pos, h, n, rel)
    return merge(softmax_attn(s, v, visible(n, n, causal))) @ wo.T


def softmax_mha(x, wq, wk, wv, wo, h, pos, causal, rel=None):
    q, k, v = heads(x @ wq.T, h), heads(x @ wk.T, h), heads(x @ wv.T, h)
    if pos == "rope":
        q, k = rope(q), rope(k)
    n = x.shape[1]
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + position_bias(pos, h, n, rel)
    return merge(softmax_attn(s, v, visible(n, n, causal))) @ wo.T


def conformal_mha(x, wqkv, wproj, raw_alpha, h, weight, normalize, causal, use_rope):
    q, k, v = (heads(t, h) for t in (x @ wqkv.T).chunk(3, -1))
    if use_rope:
        q, k = rope(q), rope(k)
    return merge(conformal(q, k, v, F.softplus(raw_alpha)[:, None, None], weight, normalize, causal)) @ wproj.T


# ---------------------------------------------------------------- writing
# ---------------------------------------------------------------- rivals (MATH.md, section 7)
def short_conv(x, weight, activation):
    """x [B, n, D], weight [D, w]: y_t = sum_i weight[:, i] x_{t-(w-1)+i}, zeros before the first."""
    w = weight.shape[1]
    padded = F.pad(x, (0, 0, w - 1, 0))
    y = sum(padded[:, i:i + x.shape[1]] * weight[:, i] for i in range(w))
    return F.silu(y) if activation == "silu" else y


def taylor_features(x):
    """phi with <phi(q), phi(k)> = 1 + s + s^2/2, s = <q, k> / sqrt(d)."""
    x = x / x.shape[-1] ** 0.25
    second = (x[..., :, None] * x[..., None, :]).flatten(-2) / math.sqrt(2)
    return torch.cat([torch.ones_like(x[..., :1]), x, second], -1)


def gated_linear(q, k, v, log_decay):
    """State S [d, d_v], S_t = exp(log_decay_t) S_{t-1} + k_t v_t^T; out_t = S_t^T q_t / sqrt(d)."""
    state, outs = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[-2]):
        state = log_decay[:, :, t, None, None].exp() * state + k[:, :, t, :, None] * v[:, :, t, None, :]
        outs.append((q[:, :, t, :, None] * state).sum(-2) / math.sqrt(q.shape[-1]))
    return torch.stack(outs, -2), state


def gated_delta(q, k, v, beta, log_decay):
    """S_t = a_t (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T with k and q of unit length, a = exp(log_decay); out_t = S_t^T q_t."""
    q, k = q / safe_norm(q).clamp_min(EPS), k / safe_norm(k).clamp_min(EPS)
    state, outs = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[-2]):
        kt, bt = k[:, :, t, :, None], beta[:, :, t, None, None]
        state = log_decay[:, :, t, None, None].exp() * state
        state = state + bt * kt * (v[:, :, t, None, :] - (kt * state).sum(-2, keepdim=True))
        outs.append((q[:, :, t, :, None] * state).sum(-2))
    return torch.stack(outs, -2), state


class Book:
    def __init__(self, folder, seed):
        self.folder, self.gen, self.n = folder, torch.Generator().manual_seed(seed), 0
        os.makedirs(folder, exist_ok=True)

    def randn(self, *shape, scale=1.0):
        return torch.randn(shape, generator=self.gen) * scale

    def case(self, op, name, fn, inputs, attrs, nograd=()):
        """Run fn(**inputs) -> dict of outputs; write inputs, outputs, cotangents and gradients."""
        leaves = {k: (t.clone().requires_grad_(k not in nograd) if t.is_floating_point() else t) for k, t in inputs.items()}
        outs = fn(**leaves)
        diff = [k for k, t in leaves.items() if t.is_floating_point() and t.requires_grad]
        cots = {k: self.randn(*o.shape) for k, o in outs.items() if o.is_floating_point()}
        total = sum((outs[k] * c).sum() for k, c in cots.items())
        grads = torch.autograd.grad(total, [leaves[k] for k in diff], allow_unused=True) if diff and total.requires_grad else []
        with h5py.File(f"{self.folder}/{op}.h5", "a", libver="latest") as f:
            if name in f:
                del f[name]
            g = f.create_group(name)
            for k, a in attrs.items():
                g.attrs[k] = a
            put = lambda sub, k, t: g.create_dataset(f"{sub}/{k}", data=t.detach().numpy())
            for k, t in leaves.items():
                put("in", k, t.to(torch.uint8) if t.dtype == torch.bool else t)
            for k, t in outs.items():
                put("out", k, t.to(torch.uint8) if t.dtype == torch.bool else t)
            if diff and total.requires_grad:
                for k, t in cots.items():
                    put("cot", k, t)
                for k, t in zip(diff, grads):
                    put("grad", k, torch.zeros_like(leaves[k]) if t is None else t)
            for t in list(outs.values()) + [t for t in grads if t is not None]:
                assert torch.isfinite(t.double()).all(), (op, name)
        self.n += 1


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--large", action="store_true", help="sizes that cross tile edges (tens of MB)")
    ap.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    a = ap.parse_args()
    b = Book(a.out, a.seed)
    R = np.random.default_rng(a.seed + 1)
    sizes = {
        False: dict(conformal=((8, 5, 9, 9), (16, 16, 7, 12), (64, 16, 5, 5), (3, 4, 1, 1), (2, 3, 6, 6)),
                    far=((16, 8, 40, 8, 12), (8, 4, 5, 16, 6)), base=((17, 8, 6), (70, 4, 4), (1, 4, 4))),
        True: dict(conformal=((8, 5, 67, 67), (16, 16, 70, 129), (64, 32, 97, 97), (24, 40, 130, 130), (2, 3, 6, 6)),
                   far=((32, 16, 130, 16, 32), (16, 8, 65, 24, 12)), base=((131, 16, 20), (64, 32, 32), (2, 4, 4)))}[a.large]
    pick = lambda *xs: xs[int(R.integers(len(xs)))]

    # geometry
    for weight in ("newton", "poisson", "jacobian", "custom"):
        for d in (2, 3, 8, 64):
            s, g = exponents(weight, d, 2.5, 0.5)
            at = dict(weight=weight, d=d, s=s, gamma=g)
            r = torch.linspace(0, 0.9, 19)[:, None]
            b.case("log_normalizer", f"{weight}_d{d}", lambda r: {"log_z": log_z(r, weight, d, s, g)}, dict(r=r), at)
            beta = torch.tensor([[0.0, 1e-9, 1e-3, 1.0, 4.0, 50.0, 1e4]]).T.contiguous()
            b.case("beta_to_radius", f"{weight}_d{d}", lambda beta: {"r": beta / ((s * s + beta * beta).sqrt() + s)}, dict(beta=beta), at)
            def em(q, k, alpha, s=s):
                r, qh, z = embed(q, k, alpha, s)
                return {"r": r, "qhat": qh, "zeta": z}
            b.case("jspace_embed", f"{weight}_d{d}", em, dict(q=b.randn(2, 5, d, scale=3), k=b.randn(2, 7, d), alpha=torch.tensor(1.7)), at)
            for n in (16, 4096):
                b.case("resolution_limit", f"{weight}_d{d}_n{n}", lambda: {"r_n": torch.tensor([1 - (1 / n) ** (1 / (2 * s))])}, {}, dict(at, n=n, delta=1.0))

    # conformal attention
    k_ = 0
    for weight in ("newton", "poisson", "jacobian", "custom"):
        for normalize in ("none", "analytic", "empirical"):
            for causal in (0, 1):
                for d, dv, nq, nk in sizes["conformal"]:
                    at = dict(weight=weight, normalize=normalize, causal=causal, s=2.5, gamma=0.5)
                    n_b = 1 if nq > 30 else 2
                    ins = dict(q=b.randn(n_b, 3, nq, d, scale=pick(0.3, 1.0, 4.0)), k=b.randn(n_b, 3, nk, d), v=b.randn(n_b, 3, nk, dv),
                               alpha=(0.5 + torch.rand(3, 1, 1, generator=b.gen)))
                    if k_ % 5 == 0:
                        ins["mask"] = torch.rand(nq, nk, generator=b.gen) < 0.7
                        ins["mask"][nq // 2] = False   # a query that sees nothing
                    if k_ % 7 == 0:
                        ins["q"][0, 0, 0] = 0.0        # a zero query: radius 0, uniform weights
                        ins["k"][0, 0, nk - 1] = 0.0   # a zero key: u = 0
                    fn = lambda q, k, v, alpha, mask=None: {"out": conformal(q, k, v, alpha, weight, normalize, bool(causal), mask, 2.5, 0.5)}
                    b.case("conformal_attention", f"{weight}_{normalize}_c{causal}_d{d}_{k_}", fn, ins, at, nograd=("mask",))
                    k_ += 1
    for beta, normalize in ((200.0, "none"), (2000.0, "empirical"), (20.0, "analytic"), (40.0, "analytic")):   # sharp queries
        d = 64
        q = unit(b.randn(1, 1, 6, d)) * beta * 8
        fn = lambda q, k, v, alpha: {"out": conformal(q, k, v, alpha, "newton", normalize, True)}
        b.case("conformal_attention", f"sharp_{normalize}_{beta:g}", fn, dict(q=q, k=b.randn(1, 1, 6, d), v=b.randn(1, 1, 6, 8), alpha=torch.ones(1, 1, 1)),
               dict(weight="newton", normalize=normalize, causal=1, s=2.5, gamma=0.5))
    for weight, normalize, use_rope, h in (("newton", "analytic", 0, 2), ("newton", "analytic", 1, 4), ("poisson", "none", 1, 2), ("jacobian", "empirical", 0, 3)):
        c = 24
        fn = lambda x, w_qkv, w_proj, raw_alpha: {"out": conformal_mha(x, w_qkv, w_proj, raw_alpha, h, weight, normalize, True, bool(use_rope))}
        b.case("conformal_mha", f"{weight}_{normalize}_rope{use_rope}_h{h}", fn,
               dict(x=b.randn(2, 11, c), w_qkv=b.randn(3 * c, c, scale=0.3), w_proj=b.randn(c, c, scale=0.3), raw_alpha=b.randn(h)),
               dict(weight=weight, normalize=normalize, rope=use_rope, n_heads=h, causal=1))

    # far field
    for weight in ("newton", "poisson"):
        for normalize in ("none", "analytic"):
            for d, dv, n, w, m in sizes["far"]:
                at = dict(weight=weight, normalize=normalize, window=w, r_far=0.5, ridge=1e-3, n_landmarks=m)
                ins = dict(q=b.randn(2, 2, n, d, scale=pick(1.0, 5.0)), k=b.randn(2, 2, n, d), v=b.randn(2, 2, n, dv), xi=b.randn(m, d), alpha=torch.full((2, 1, 1), 3.0))
                fn = lambda q, k, v, xi, alpha: {"out": hierarchical(q, k, v, xi, alpha, weight, w, 0.5, 1e-3, normalize)}
                b.case("hierarchical_attention", f"{weight}_{normalize}_d{d}_n{n}", fn, ins, at)
    for d, m in ((8, 6), (64, 32)):
        s, _ = exponents("newton", d)
        rf = torch.full((1, 1), 0.5)
        def basis(xi, zeta, qhat, r):
            x = unit(xi)
            g = log_kt(rf, x @ x.T, s).exp() + 1e-3 * torch.eye(m)
            return {"features": log_kt(rf, zeta @ x.T, s).exp(), "coeffs": torch.linalg.solve(g, log_kt(r.clamp_max(0.5), qhat @ x.T, s).exp().T).T}
        b.case("landmark_basis", f"d{d}_m{m}", basis, dict(xi=b.randn(m, d), zeta=unit(b.randn(9, d)), qhat=unit(b.randn(4, d)), r=torch.tensor([[0.0], [0.2], [0.5], [0.8]])),
               dict(s=s, r_far=0.5, ridge=1e-3))

    # baselines
    for causal in (0, 1):
        for n, d, dv in sizes["base"]:
            qkv = lambda sc=1.0: dict(q=b.randn(2, 2, n, d, scale=sc), k=b.randn(2, 2, n, d, scale=sc), v=b.randn(2, 2, n, dv))
            al = visible(n, n, causal)
            b.case("softmax_attention", f"c{causal}_n{n}", lambda q, k, v: {"out": softmax_attn(q @ k.transpose(-1, -2) / math.sqrt(d), v, al)}, qkv(2.0), dict(causal=causal))
            b.case("linear_attention", f"c{causal}_n{n}", lambda q, k, v: {"out": kernelised(F.elu(q) + 1, F.elu(k) + 1, v, al, 1e-6)}, qkv(), dict(causal=causal, eps=1e-6))
            b.case("performer_attention", f"c{causal}_n{n}", lambda q, k, v, omega: {"out": performer(q, k, v, omega, al)}, dict(qkv(), omega=b.randn(32, d)), dict(causal=causal), nograd=("omega",))
            for pattern in ("local", "strided", "topk"):
                at = dict(pattern=pattern, window=4, stride=5, n_global=2, topk=3, causal=causal)
                def sp(q, k, v):
                    s = q @ k.transpose(-1, -2) / math.sqrt(d)
                    allow = sparse_allow(pattern, s, n, 4, 5, 2, 3, causal).expand(s.shape)
                    return {"out": softmax_attn(s, v, allow), "allow": allow.clone()}
                b.case("sparse_attention", f"{pattern}_c{causal}_n{n}", sp, qkv(), at)

    # W2 and the standard block
    for kind in ("w2", "w2_overlap", "softmax"):
        for pos in ("rope", "alibi", "relative", "none"):
            for h, c, n in ((2, 16, 9), (3, 24, 6)):
                wide = 1 if kind == "softmax" else 2
                ins = dict(x=b.randn(2, n, c), w_q=b.randn(wide * c, c, scale=0.3), w_k=b.randn(wide * c, c, scale=0.3), w_v=b.randn(c, c, scale=0.3), w_o=b.randn(c, c, scale=0.3))
                if kind != "softmax":
                    ins["raw_tau"] = b.randn(h) + 2
                if pos == "relative":
                    ins["rel"] = b.randn(2 * 8 + 1)
                def at_fn(x, w_q, w_k, w_v, w_o, raw_tau=None, rel=None):
                    if kind == "softmax":
                        return {"out": softmax_mha(x, w_q, w_k, w_v, w_o, h, pos, True, rel)}
                    return {"out": w2_attention(x, w_q, w_k, w_v, w_o, raw_tau, h, kind, pos, True, rel)}
                b.case("attention_layer", f"{kind}_{pos}_h{h}", at_fn, ins, dict(kind=kind, position=pos, n_heads=h, causal=1))
    for kind in ("w2", "softmax"):
        h, c, f, n, V, L = 2, 16, 24, 10, 23, 2
        wide = 2 if kind == "w2" else 1
        ins = dict(embed=b.randn(V, c), final_norm_weight=1 + 0.1 * b.randn(c), final_norm_bias=0.1 * b.randn(c), lm_head=b.randn(V, c, scale=0.3))
        for l in range(L):
            ins |= {f"l{l}_attn_norm": 1 + 0.1 * b.randn(c), f"l{l}_mlp_norm": 1 + 0.1 * b.randn(c),
                    f"l{l}_w_q": b.randn(wide * c, c, scale=0.3), f"l{l}_w_k": b.randn(wide * c, c, scale=0.3), f"l{l}_w_v": b.randn(c, c, scale=0.3), f"l{l}_w_o": b.randn(c, c, scale=0.3),
                    f"l{l}_w_gate": b.randn(f, c, scale=0.3), f"l{l}_w_up": b.randn(f, c, scale=0.3), f"l{l}_w_down": b.randn(c, f, scale=0.3)}
            if kind == "w2":
                ins[f"l{l}_raw_tau"] = b.randn(h) + 2
        tokens = torch.from_numpy(R.integers(0, V, (3, n)))
        labels = torch.from_numpy(R.integers(0, V, (3, n)))
        labels[torch.from_numpy(R.random((3, n)) < 0.4)] = -100
        def lm(tokens, labels, **p):
            x = p["embed"][tokens]
            for l in range(L):
                g = lambda k: p[f"l{l}_{k}"]
                y = rms_norm(x, g("attn_norm"))
                x = x + (w2_attention(y, g("w_q"), g("w_k"), g("w_v"), g("w_o"), g("raw_tau"), h, "w2", "rope", True) if kind == "w2"
                         else softmax_mha(y, g("w_q"), g("w_k"), g("w_v"), g("w_o"), h, "rope", True))
                x = x + swiglu(rms_norm(x, g("mlp_norm")), g("w_gate"), g("w_up"), g("w_down"))
            x = F.layer_norm(x, (c,), p["final_norm_weight"], p["final_norm_bias"])
            logits = x @ p["lm_head"].T
            return {"logits": logits, "loss": F.cross_entropy(logits.reshape(-1, V), labels.reshape(-1), ignore_index=-100)}
        b.case("language_model", kind, lm, dict(tokens=tokens, labels=labels, **ins), dict(kind=kind, n_layers=L, n_heads=h, d_model=c, d_ff=f, vocab=V, position="rope"))

    # parts
    b.case("rope", "d16", lambda x: {"y": rope(x)}, dict(x=b.randn(2, 3, 13, 16)), dict(base=10000.0, offset=0))
    b.case("rope", "d6_offset", lambda x: {"y": rope(x, offset=100)}, dict(x=b.randn(1, 2, 5, 6)), dict(base=10000.0, offset=100))
    b.case("rms_norm", "d24", lambda x, weight: {"y": rms_norm(x, weight)}, dict(x=b.randn(7, 24), weight=b.randn(24)), dict(eps=1e-6))
    b.case("rms_norm", "tiny", lambda x, weight: {"y": rms_norm(x, weight)}, dict(x=b.randn(3, 8, scale=1e-4), weight=b.randn(8)), dict(eps=1e-6))
    b.case("layer_norm", "d24", lambda x, weight, bias: {"y": F.layer_norm(x, (24,), weight, bias)}, dict(x=b.randn(7, 24), weight=b.randn(24), bias=b.randn(24)), dict(eps=1e-5))
    b.case("swiglu", "d8_f20", lambda x, w_gate, w_up, w_down: {"y": swiglu(x, w_gate, w_up, w_down)},
           dict(x=b.randn(5, 8), w_gate=b.randn(20, 8), w_up=b.randn(20, 8), w_down=b.randn(8, 20)), {})
    lab = torch.from_numpy(R.integers(0, 11, 9)); lab[[1, 4]] = -100
    b.case("cross_entropy", "ignore", lambda logits, labels: {"loss": F.cross_entropy(logits, labels, ignore_index=-100)}, dict(logits=b.randn(9, 11, scale=5), labels=lab), {})
    b.case("cross_entropy", "none_labelled", lambda logits, labels: {"loss": (logits * 0).sum()}, dict(logits=b.randn(4, 11), labels=torch.full((4,), -100)), {})
    p0 = b.randn(6, 4); gs = b.randn(5, 6, 4)
    p = torch.nn.Parameter(p0.clone()); opt = torch.optim.AdamW([p], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for g in gs:
        p.grad = g.clone(); opt.step()
    b.case("adamw", "five_steps", lambda p0, grads: {"p": p.detach()}, dict(p0=p0, grads=gs), dict(lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1), nograd=("p0", "grads"))
    # certified evaluation: exact values, to hold the bound against
    for kind in ("conformal", "softmax"):
        n, d, dv = 300, 16, 8
        z, v, qh = unit(b.randn(n, d)), b.randn(n, dv), unit(b.randn(5, d))
        s, r, beta = 7.0, 0.3, 8.0
        u = qh @ z.T
        w = log_kt(torch.tensor(r), u, s).exp() if kind == "conformal" else (beta * (u - 1)).exp()
        den = torch.full((5, 1), n * math.exp(2 * s * math.log1p(-r))) if kind == "conformal" else w.sum(-1, keepdim=True)
        b.case("exact_attention", kind, lambda qhat, zeta, v: {"out": (w @ v) / den}, dict(qhat=qh, zeta=z, v=v), dict(kernel=kind, r=r, s=s, beta=beta), nograd=("qhat", "zeta", "v"))
    # rivals; at the end, so that the cases above keep their numbers
    for n, d, dv in sizes["base"]:
        for w in (1, 3, 4):
            for activation in ("none", "silu"):
                b.case("short_conv", f"w{w}_{activation}_n{n}", lambda x, weight: {"y": short_conv(x, weight, activation)}, dict(x=b.randn(2, n, d), weight=b.randn(d, w)), dict(width=w, activation=activation))
        qkv = lambda sc=1.0: dict(q=b.randn(2, 2, n, d, scale=sc), k=b.randn(2, 2, n, d, scale=sc), v=b.randn(2, 2, n, dv))
        for causal in (0, 1):
            b.case("taylor_attention", f"c{causal}_n{n}", lambda q, k, v: {"out": kernelised(taylor_features(q), taylor_features(k), v, visible(n, n, causal), 1e-6)}, qkv(), dict(causal=causal, eps=1e-6))
        slow, fast = -0.05 * torch.rand(2, 2, n, generator=b.gen), -3 * torch.rand(2, 2, n, generator=b.gen)
        for name, decay in (("none", torch.zeros(2, 2, n)), ("slow", slow), ("fast", fast)):
            def gla(q, k, v, log_decay):
                out, state = gated_linear(q, k, v, log_decay)
                return {"out": out, "state": state}
            b.case("gated_linear_attention", f"{name}_n{n}", gla, dict(qkv(), log_decay=decay), {})
            def delta(q, k, v, beta, log_decay):
                out, state = gated_delta(q, k, v, beta, log_decay)
                return {"out": out, "state": state}
            b.case("gated_delta_rule", f"{name}_n{n}", delta, dict(qkv(), beta=torch.rand(2, 2, n, generator=b.gen), log_decay=decay), {})
    print(f"{b.n} cases")


if __name__ == "__main__":
    main()
