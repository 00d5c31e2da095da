"""Products of a wheel beside Triton and torch, interleaved in one process: bf16, weight [n, k], idle regime.

    tilewright compile --library products --kernels examples/triton/library.json --wheel
    python examples/triton/products.py products

Triton: a persistent kernel whose copies go by tensor maps, the fastest of its configurations at each size. torch: `torch.mm`, which takes cuBLASLt's first choice.
Each sample is a CUDA graph of launches that rotate over buffers of twice the L2; the GPU rests before it. The last lines are CSV: size, microseconds, ratios.
Needs an H100 or H200 with torch and Triton; about a minute.
"""
import argparse
import glob
import os
import subprocess
import sys
import time

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Tile of D, its depth, pipeline stages, warps, parts in which D is stored, and blocks an SM.
CONFIGS = [
    (128, 256, 64, 3, 8, 2, 1),
    (128, 256, 64, 4, 8, 2, 1),
    (256, 128, 64, 3, 8, 2, 1),
    (256, 128, 64, 4, 8, 2, 1),
    (128, 128, 64, 4, 8, 1, 1),
    (128, 128, 64, 4, 4, 1, 1),
    (128, 128, 128, 3, 8, 1, 1),
    (128, 128, 64, 3, 4, 1, 2),
    (128, 64, 64, 4, 4, 1, 2),
    (128, 64, 128, 4, 4, 1, 1),
    (64, 128, 64, 4, 4, 1, 2),
    (64, 128, 128, 4, 4, 1, 1),
    (64, 64, 128, 4, 4, 1, 2),
    (64, 256, 64, 4, 4, 1, 1),
]


@triton.jit
def product(
    a_map, b_map, d_map, m, n, k,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
):
    """D[m, n] = A[m, k] . B[n, k]^T by persistent blocks, GROUP rows of tiles after the other."""
    rows = tl.cdiv(m, TM)
    columns = tl.cdiv(n, TN)
    for tile in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0), flatten=True):
        band = tile // (GROUP * columns)
        height = min(rows - band * GROUP, GROUP)
        inside = tile % (GROUP * columns)
        row = (band * GROUP + inside % height) * TM
        column = inside // height * TN
        sums = tl.zeros((TM, TN), tl.float32)
        for depth in range(tl.cdiv(k, TK)):
            a = a_map.load([row, depth * TK])
            b = b_map.load([column, depth * TK])
            sums = tl.dot(a, b.T, sums)
        if PARTS == 1:
            d_map.store([row, column], sums.to(tl.bfloat16))
        else:
            left, right = sums.reshape(TM, 2, TN // 2).permute(0, 2, 1).split()
            d_map.store([row, column], left.to(tl.bfloat16))
            d_map.store([row, column + TN // 2], right.to(tl.bfloat16))


def by_triton(config, sms):
    """A function of (a, weight, d) that launches the kernel of a configuration; maps are kept, one for each buffer."""
    tm, tn, tk, stages, warps, parts, residents = config
    maps = {}

    def map_of(tensor, box):
        key = tensor.data_ptr(), tuple(tensor.shape), *box
        return maps.setdefault(key, TensorDescriptor.from_tensor(tensor, list(box)))

    def call(a, weight, d):
        (m, k), n = a.shape, weight.shape[0]
        blocks = min(sms * residents, triton.cdiv(m, tm) * triton.cdiv(n, tn))
        product[(blocks,)](
            map_of(a, (tm, tk)), map_of(weight, (tn, tk)), map_of(d, (tm, tn // parts)), m, n, k,
            TM=tm, TN=tn, TK=tk, GROUP=8, PARTS=parts, num_stages=stages, num_warps=warps,
        )

    return call


def graph_of(call, buffers, launches):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(*buffers[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(launches):
            call(*buffers[i % len(buffers)])
    return graph


def medians(graphs, launches, rounds):
    """Microseconds of one launch of each graph, interleaved; the GPU rests for twice a sample's time before each."""
    taken = {name: [] for name in graphs}
    for turn in range(rounds + 2):
        for name in list(graphs)[turn % len(graphs) :] + list(graphs)[: turn % len(graphs)]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            spent = start.elapsed_time(end)
            time.sleep(0.002 + 2e-3 * spent)
            if turn > 1:
                taken[name].append(1000 * spent / launches)
    return {name: sorted(each)[len(each) // 2] for name, each in taken.items()}


def compare(size, linear, sms):
    """One size: every configuration checked and timed, the fastest of them beside torch and the wheel."""
    m, n, k = size
    each = 2 * (m * k + n * k + m * n)
    count = max(2, min(64, 1 + 2 * 60_000_000 // each))
    buffers = [tuple(torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (n, k), (m, n))) for _ in range(count)]
    a, weight, d = buffers[0]
    want = torch.mm(a, weight.t())
    launches = max(2, min(40, int(6e11 / (2 * m * n * k))))  # about a millisecond
    graphs = {}
    for config in CONFIGS:
        call = by_triton(config, sms)
        try:
            d.zero_()
            call(a, weight, d)
        except triton.runtime.errors.OutOfResources as error:
            print("  %s: %s" % (config, error), flush=True)
            continue
        if (d.float() - want.float()).abs().max() > 0.02 * k**0.5:
            sys.exit("Triton's %s is wrong at %s" % (config, size))
        graphs[config] = graph_of(call, buffers, launches)
    tuned = medians(graphs, launches, 7)
    best = min(tuned, key=tuned.get)
    made = linear(a, weight)
    if (made.float() - want.float()).abs().max() > 0.02 * k**0.5:
        sys.exit("the wheel's product is wrong at %s" % (size,))
    kept = []
    final = {
        # Kept, so that results rotate over memory as those of the others do.
        "tilewright": graph_of(lambda a, weight, d: kept.append(linear(a, weight)), buffers, launches),
        "triton": graphs[best],
        "torch": graph_of(lambda a, weight, d: torch.mm(a, weight.t(), out=d), buffers, launches),
    }
    times = medians(final, launches, 61)
    print("%s: Triton's best %s of %d, %d launches a sample, %d buffers" % (size, best, len(graphs), launches, count), flush=True)
    return times, best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", help="of the library, with its wheel")
    folder = parser.parse_args().folder
    site = os.path.join(folder, "site")
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--upgrade", "--target", site]
    subprocess.run(pip + glob.glob(os.path.join(folder, "products-*.whl")), check=True)
    sys.path.insert(0, site)
    import products

    sms = torch.cuda.get_device_properties(0).multi_processor_count
    sizes = [tuple(products.catalogue.manifest(each)["request"][axis] for axis in "mnk") for each in products.catalogue.dispatch["linear"]]
    with torch.inference_mode():
        rows = [(size, *compare(size, products.linear, sms)) for size in sizes]
    print("# %s, torch %s, Triton %s" % (torch.cuda.get_device_name(), torch.__version__, triton.__version__))
    print("size,µs,Triton,torch.mm,Triton's configuration")
    for size, times, best in rows:
        ours = times["tilewright"]
        print("%s,%.1f,%.3f,%.3f,%s" % ("x".join(map(str, size)), ours, times["triton"] / ours, times["torch"] / ours, " ".join(map(str, best))))


if __name__ == "__main__":
    main()
