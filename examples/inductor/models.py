"""mm, addmm and bmm of compiled models by kernels of a wheel: a Llama-shaped and a BERT-shaped model with random weights, beside eager and max-autotune.

    tilewright compile --library out --kernels examples/inductor/library.json --wheel
    python examples/inductor/models.py out

Needs torch with CUDA, and takes about 4 minutes, most of it max-autotune's; `--models bert` takes one of them. `--device cpu` shows which products are
replaced where there is no GPU: the wheel's operators compute with torch there.
"""
import argparse
import glob
import os
import subprocess
import sys

import torch
import torch._inductor.config as config
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("folder", help="of the library, with its wheel")
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--models", default="bert,llama,decode", help="which, with commas between (default bert,llama,decode)")
arguments = parser.parse_args()
device = arguments.device

site = os.path.join(arguments.folder, "site")
wheel = glob.glob(os.path.join(arguments.folder, "blocks-*.whl"))
pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--upgrade", "--target", site]
subprocess.run(pip + wheel, check=True)
sys.path.insert(0, site)
import blocks

blocks.linear  # defines the operators
aten, ops = torch.ops.aten, torch.ops.blocks
options = {"fallback": True} if device == "cpu" else {}


def sizes(operation, names):
    """What the library has kernels of an operation for."""
    requests = (blocks.catalogue.manifest(each)["request"] for each in blocks.catalogue.dispatch[operation])
    return {tuple(each["batch"]["count"] if name == "batch" else each[name] for name in names) for each in requests}


LINEAR, BIAS = sizes("linear", "nk"), sizes("linear_bias", "nk")
BATCHED = {name: sizes(name, ("batch", "m", "n", "k")) for name in ("scores", "mixed")}


def is_weight(node, served):
    """Whether B is a weight [n, k] seen as its transpose, of sizes that the library has."""
    value = node.meta["val"]
    k, n = value.shape
    return value.dtype == torch.bfloat16 and value.stride(0) == 1 and (n, k) in served


def batched(a, b):
    """The operation that serves a batched product, and its operands; None for none."""
    left, right = a.meta["val"], b.meta["val"]
    if left.dtype != torch.bfloat16 or left.stride(2) != 1:
        return None
    size = (*left.shape, right.shape[2])
    name = "scores" if right.stride(1) == 1 else "mixed"
    count, m, k, n = size
    if (count, m, n, k) not in BATCHED[name] or (name == "mixed" and right.stride(2) != 1):
        return None
    return name, right.stride(1) == 1


replaced = []


def to_library(graph):
    """Inductor's pass behind autograd: what is left of products are mm, addmm and bmm."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten.mm.default and is_weight(node.args[1], LINEAR):
            op, taken = ops.linear.default, node.args
        elif node.target is aten.addmm.default and not node.kwargs and node.args[0].meta["val"].dim() == 1 and is_weight(node.args[2], BIAS):
            op, taken = ops.linear_bias.default, (node.args[1], node.args[2], node.args[0])
        elif node.target is aten.bmm.default and (found := batched(*node.args)) is not None:
            name, columns = found
            op, taken = getattr(ops, name).default, list(node.args)
            if columns:  # as it lies in memory: [batch, n, k]
                with graph.inserting_before(node):
                    taken[1] = graph.call_function(aten.permute.default, (node.args[1], [0, 2, 1]))
                taken[1].meta["val"] = node.args[1].meta["val"].transpose(1, 2)
        else:
            continue
        with graph.inserting_before(node):
            new = graph.call_function(op, tuple(taken), options)
        new.meta.update(node.meta)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        replaced.append(op)


class Llama(nn.Module):
    """A block of a Llama: RMS norms, causal attention, gated FFN. past: tokens before, whose keys and values are at hand."""

    def __init__(self, past=None, width=2048, hidden=5632, heads=16):
        super().__init__()
        self.heads, self.past = heads, past
        for name in ("keys", "values") if past else ():
            self.register_buffer(name, torch.randn(past[0], heads, past[1], width // heads))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        b, s, w = x.shape
        y = self.norms[0](x)
        q, k, v = (each(y).view(b, s, self.heads, -1).transpose(1, 2) for each in (self.q, self.k, self.v))
        if self.past:
            k, v = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=not self.past).transpose(1, 2).reshape(b, s, w))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Bert(nn.Module):
    """A block of a BERT, whose attention is two batched products and a softmax."""

    def __init__(self, width=768, hidden=3072, heads=12):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def heads_of(self, y):
        b, s, _ = y.shape
        return y.view(b, s, self.heads, -1).transpose(1, 2).reshape(b * self.heads, s, -1)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = (self.heads_of(each(x)) for each in (self.q, self.k, self.v))
        weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5, -1)
        mixed = torch.bmm(weights, v).view(b, self.heads, s, -1).transpose(1, 2).reshape(b, s, w)
        x = self.norms[0](x + self.o(mixed))
        return self.norms[1](x + self.down(F.gelu(self.up(x))))


def milliseconds(model, x):
    """Median of 30 forwards on the GPU."""
    for _ in range(5):
        model(x)
    times = []
    for _ in range(30):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        model(x)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[15]


def compare(label, kind, shape, depth):
    """One model: products replaced, errors against float64, and on a GPU times."""
    torch.manual_seed(0)
    model = nn.Sequential(*(kind() for _ in range(depth))).to(device, torch.bfloat16).eval()
    exact = nn.Sequential(*(kind() for _ in range(depth))).to(device).double()
    exact.load_state_dict(model.state_dict())
    x = torch.randn(*shape, device=device, dtype=torch.bfloat16)
    with torch.no_grad():
        want = exact(x.double())
        models = {"eager": model}
        if device == "cuda":
            models["max-autotune"] = torch.compile(model, mode="max-autotune")
        measured = {name: ((each(x).double() - want).abs().max().item(), device == "cuda" and milliseconds(each, x)) for name, each in models.items()}
        torch._dynamo.reset()
        replaced.clear()
        with config.patch(post_grad_custom_post_pass=to_library):
            ours = torch.compile(model, mode="reduce-overhead" if device == "cuda" else None, fullgraph=True)
            measured["library"] = (ours(x).double() - want).abs().max().item(), device == "cuda" and milliseconds(ours, x)
    names = [str(each).split(".")[1] for each in replaced]
    print(label, "by the library:", ", ".join("%d %s" % (names.count(name), name) for name in dict.fromkeys(names)), flush=True)
    for name, (error, time) in measured.items():
        print("  %-13s error %.3g%s" % (name, error, ", %.3f ms a forward" % time if time else ""))
    if not replaced or measured["library"][0] > 2 * measured["eager"][0] + 1e-2:
        sys.exit("the numbers are wrong, or nothing was replaced")


depth = 4 if device == "cuda" else 1
cuda = device == "cuda"
runs = {
    "bert": ("BERT-shaped, 16 x 128 tokens", Bert, (16, 128, 768)),
    "llama": ("Llama-shaped, 4 x 512 tokens", Llama, (4, 512, 2048) if cuda else (1, 32, 2048)),
    "decode": ("Llama-shaped, a token behind 512, 4 at once", lambda: Llama((4, 512)), (4, 1, 2048)),
}
for name in arguments.models.split(","):
    compare(*runs[name], depth)
