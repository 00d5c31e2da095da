#!/usr/bin/env python3
"""torch._grouped_mm as a peer of `tilewright bench --experts`: reads one JSON object on standard input, prints microseconds. With `--gather` index_select brings the rows first; with `--expert-axis k` both matrices are of all rows.

    tilewright bench --experts 4 -m 32768 -n 4096 -k 7168 --dtype bf16 --b-layout col --vs examples/pytorch/grouped_peer.py
"""
import json
import sys

import torch

from peer_timing import timed

request = json.load(sys.stdin)
problem, rows = request["problems"][0], request.get("rows")
batch = problem["batch"]
if rows is None or batch.get("rows") != "offsets" or problem["a"]["dtype"] != "bf16":
    sys.exit(0)
steps = problem["epilogue"]
tokens = steps[0]["rows"] if [step["kind"] for step in steps] == ["gather"] else None
if steps and tokens is None:
    sys.exit(0)
sums = batch.get("axis") == "k"
if sums and (problem["d"]["dtype"] != "bf16" or problem["c"] is not None):
    sys.exit(0)
m, n, k = problem["m"], problem["n"], problem["k"]
torch.manual_seed(request["seed"])
gpu = torch.cuda.get_device_properties(0)
bytes_of_set = 2 * (m * k + n * k + len(rows) * m * n if sums else m * k + len(rows) * n * k + m * n)
sets = []
for _ in range(max(1, -(-2 * gpu.L2_cache_size // bytes_of_set))):
    if sums:
        pair = []
        for which, lines, columns in (("a", m, k), ("b", k, n)):
            row = problem[which]["layout"] == "row"
            values = torch.randn(*((lines, columns) if row else (columns, lines)), device="cuda", dtype=torch.bfloat16)
            pair.append(values if row else values.t())
        sets.append(tuple(pair))
        continue
    a = torch.randn(tokens or m, k, device="cuda", dtype=torch.bfloat16)
    # Column-major B: [experts, n, k] in memory; row-major, [experts, k, n].
    if problem["b"]["layout"] == "col":
        b = torch.randn(len(rows), n, k, device="cuda", dtype=torch.bfloat16).transpose(-1, -2)
    else:
        b = torch.randn(len(rows), k, n, device="cuda", dtype=torch.bfloat16)
    sets.append((a, b))
offsets = torch.tensor(rows, device="cuda").cumsum(0, dtype=torch.int32)
index = torch.randint(0, tokens or m, (m,), device="cuda", dtype=torch.int32)
gathered = torch.empty(m, k, device="cuda", dtype=torch.bfloat16)


def launch(i):
    a, b = sets[i % len(sets)]
    if tokens is not None:
        a = torch.index_select(a, 0, index, out=gathered)
    return torch._grouped_mm(a, b, offs=offsets)


samples = timed(launch, request["seconds"])
print(json.dumps({"m": m, "n": n, "k": k, "name": "torch._grouped_mm" if tokens is None else "torch.index_select, _grouped_mm", "us": samples, "detail": "torch " + torch.__version__}))
