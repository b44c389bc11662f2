"""Times a product of square matrices in PyTorch and prints one JSON line: the peer of ../operation.cpp.

    python3 operation.py --operation product --n 8192 --precision bf16 --device cuda
"""
import argparse
import json
import statistics
import time

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operation", choices=("product",), default="product")
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--time-s", type=float, default=0.5)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    args = parser.parse_args()
    dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
    a, b = (torch.randn(args.n, args.n, device=args.device, dtype=dtype) for _ in range(2))
    times = []
    while len(times) < 13 or sum(times) < 1e3 * args.time_s:
        begin = time.perf_counter()
        torch.matmul(a, b)
        if args.device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    times = times[3:]
    print(json.dumps({"name": "PyTorch", "operation": args.operation, "n": args.n, "precision": args.precision,
                      "ms": statistics.median(times), "ms_min": min(times), "gflop": 2e-9 * args.n**3,
                      "version": torch.__version__}))


if __name__ == "__main__":
    main()
