"""A generated fp16 GEMM with bias and gelu fused, as a torch custom op: its numbers and its time beside torch's.

    tilewright compile --library out --kernels examples/pytorch/library.json
    python examples/pytorch/linear_gelu.py out

Needs torch with CUDA. The op takes what torch.nn.functional.linear takes: x [m, k], weight [n, k], bias [n].
"""
import importlib
import sys

import torch

sys.path.insert(0, sys.argv[1] if len(sys.argv) > 1 else "out")
kernels = importlib.import_module("linear")
library = kernels.Library(device=torch.cuda.current_device())


@torch.library.custom_op("tilewright::linear_gelu", mutates_args=())
def linear_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    (m, k), n = x.shape, weight.shape[0]
    d = torch.empty(m, n, dtype=torch.float16, device=x.device)
    # weight is n x k with k contiguous, which is the k x n operand B in columns.
    library.linear_gelu(m, n, k, x, weight, d, epilogue={0: bias}, stream=torch.cuda.current_stream())
    return d


@linear_gelu.register_fake
def _(x, weight, bias):
    return x.new_empty(x.shape[0], weight.shape[0])


def median_us(work, repeat=50, rounds=9):
    """Median microseconds of one call, over rounds of calls that are queued together."""
    for _ in range(10):
        work()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeat):
            work()
        end.record()
        end.synchronize()
        times.append(1000 * start.elapsed_time(end) / repeat)
    return sorted(times)[rounds // 2]


def main():
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    worst = 0.0
    for m, n, k in [(512, 1024, 1024), (4096, 4096, 1024), (4096, 4096, 4096)]:
        x = torch.randn(m, k, device="cuda", dtype=torch.float16)
        weight = torch.randn(n, k, device="cuda", dtype=torch.float16) / k**0.5
        bias = torch.randn(n, device="cuda", dtype=torch.float16)
        exact = torch.nn.functional.gelu(x.double() @ weight.double().T + bias.double())
        error = (linear_gelu(x, weight, bias).double() - exact).abs().max().item()
        theirs = (torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias)).double() - exact).abs().max().item()
        ours_us = median_us(lambda: linear_gelu(x, weight, bias))
        torch_us = median_us(lambda: torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias)))
        print(f"{m} x {n} x {k}: error {error:.2e} (torch {theirs:.2e}), {ours_us:.1f} us (torch {torch_us:.1f} us, ratio {torch_us / ours_us:.2f})")
        worst = max(worst, error)
    # Values are below 8; half a unit of f16 there is 2^-9, and the sum's own error is far below.
    if worst > 2**-8:
        sys.exit(f"the error {worst} is too large")


main()
