"""A generated fp16 GEMM with bias and gelu fused, as a function of torch tensors: its numbers and its time beside torch's.

    tilewright compile --library out --kernels examples/pytorch/library.json --wheel
    python examples/pytorch/linear_gelu.py out

Needs torch with CUDA. The wheel goes into out/site here; `pip install out/linear-*.whl` is what you would do. The function takes what
torch.nn.functional.linear takes: x [m, k], weight [n, k], bias [n].
"""
import glob
import os
import subprocess
import sys
import time

import torch

folder = sys.argv[1] if len(sys.argv) > 1 else "out"
site = os.path.join(folder, "site")
wheel = glob.glob(os.path.join(folder, "linear-*.whl"))
pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--upgrade", "--target", site]
subprocess.run(pip + wheel, check=True)
sys.path.insert(0, site)
from linear import linear_gelu


def of_torch(x, weight, bias):
    return torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias))


def of_cublas(x, weight, bias):
    """cuBLASLt's fused epilogue, the strongest that torch has; its gelu is the tanh form, which is cheaper than ours."""
    return torch._addmm_activation(bias, x, weight.t(), use_gelu=True)


def microseconds(works, repeat, rounds=15):
    """Median microseconds of a call of each work; each round calls all of them, so that heat and clocks are shared."""
    times = [[] for _ in works]
    for round in range(rounds + 2):
        for work, taken in zip(works, times):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            end.synchronize()
            if round >= 2:
                taken.append(1000 * start.elapsed_time(end) / repeat)
    return [sorted(taken)[rounds // 2] for taken in times]


def repeated(work, repeat):
    """The calls one after the other, as a program in Python queues them."""

    def calls():
        for _ in range(repeat):
            work()

    return calls


def captured(work, repeat):
    """The same calls as one CUDA graph: what the GPU needs, without Python and without launches."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        repeated(work, repeat)()
    return graph.replay


def host_us(work, repeat=200):
    """Microseconds of the CPU to queue a call."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    repeated(work, repeat)()
    taken = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * taken / repeat


def main():
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    worst = 0.0
    for m, n, k in [(512, 1024, 1024), (2048, 8192, 2048), (4096, 4096, 1024), (4096, 4096, 4096)]:
        x = torch.randn(m, k, device="cuda", dtype=torch.float16)
        weight = torch.randn(n, k, device="cuda", dtype=torch.float16) / k**0.5
        bias = torch.randn(n, device="cuda", dtype=torch.float16)
        exact = torch.nn.functional.gelu(x.double() @ weight.double().T + bias.double())
        error, theirs = ((op(x, weight, bias).double() - exact).abs().max().item() for op in (linear_gelu, of_torch))
        works = [lambda op=op: op(x, weight, bias) for op in (linear_gelu, of_torch, of_cublas)]
        for work in works:
            work()
        repeat = max(10, 40_000_000_000 // (m * n * k))
        in_graph = microseconds([captured(work, repeat) for work in works], repeat)
        queued = microseconds([repeated(work, repeat) for work in works], repeat)
        print(f"{m} x {n} x {k}: error {error:.2e} (torch {theirs:.2e})")
        for name, (ours, torch_us, cublas_us) in (("graph ", in_graph), ("queued", queued)):
            print(
                f"  {name} {ours:.1f} us; torch {torch_us:.1f} us, ratio {torch_us / ours:.3f};"
                f" cuBLASLt fused {cublas_us:.1f} us, ratio {cublas_us / ours:.3f}"
            )
        print(f"  host   {host_us(works[0]):.1f} us a call; torch {host_us(works[1]):.1f} us")
        worst = max(worst, error)
    # Values are below 8; half a unit of f16 there is 2^-9, and the sum's own error is far below.
    if worst > 2**-8:
        sys.exit(f"the error {worst} is too large")


if __name__ == "__main__":
    main()
