#!/usr/bin/env python3
"""torch's scaled_dot_product_attention as a peer of `tilewright bench --op attention`: reads one JSON object on standard input, prints microseconds.

    tilewright bench --op attention --queries 4096 --keys 4096 --heads 16 --head-dim 128 --dtype bf16 --vs "examples/pytorch/attention_peer.py CUDNN"

The argument is a backend of torch: CUDNN (unless given), FLASH or EFFICIENT.
"""
import json
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from peer_timing import timed

request = json.load(sys.stdin)
problem, attention = request["problems"][0], request.get("attention")
name = sys.argv[1].upper() if len(sys.argv) > 1 else "CUDNN"
dtypes = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
torch_has = attention is not None and all(attention[key] in (None, False) for key in ("window", "softCap", "bias", "alibi", "backward"))
# torch's causal masks begin at the first key.
if not torch_has or (attention["causal"] and attention["offset"] != 0):
    sys.exit(0)
batch, heads, queries = attention["batch"], attention["heads"], attention["queries"]
torch.manual_seed(request["seed"])
dtype = dtypes[attention["dtype"]]


def matrix(heads, rows, columns):
    """Of the layout's order in memory, as torch has the axes: batch, heads, rows, columns."""
    if attention["layout"] == "bhsd":
        return torch.randn(batch, heads, rows, columns, device="cuda", dtype=dtype)
    return torch.randn(batch, rows, heads, columns, device="cuda", dtype=dtype).transpose(1, 2)


def tensors():
    keys = (attention["kvHeads"], attention["keys"])
    return matrix(heads, queries, attention["headDim"]), matrix(*keys, attention["headDim"]), matrix(*keys, attention["valueDim"])


first = tensors()
bytes_of_set = sum(each.numel() * each.element_size() for each in (*first, first[0]))
l2 = torch.cuda.get_device_properties(0).L2_cache_size
sets = [first] + [tensors() for _ in range(max(1, -(-2 * l2 // bytes_of_set)) - 1)]


def launch(i):
    q, k, v = sets[i % len(sets)]
    causal = bool(attention["causal"])
    return F.scaled_dot_product_attention(
        q, k, v, is_causal=causal, scale=attention["scale"], enable_gqa=heads != attention["kvHeads"]
    )


with sdpa_kernel(getattr(SDPBackend, name + "_ATTENTION")):
    samples = timed(launch, request["seconds"])
detail = "torch " + torch.__version__
print(json.dumps({"m": problem["m"], "n": problem["n"], "k": problem["k"], "name": "torch " + name.lower(), "us": samples, "detail": detail}))
