"""Products, gated FFNs and attention of compiled models by kernels of a wheel: Llama- and BERT-shaped ones of transformers with random weights.

    tilewright compile --library out --kernels examples/inductor/library.json --wheel
    python examples/inductor/models.py out

Needs torch with CUDA and transformers, and takes about 4 minutes, most of it max-autotune's; `--models bert` takes one of them, `--no-autotune` leaves
that out. `--device cpu` shows what is replaced where there is no GPU: the wheel's operators compute with torch there.

Two passes: before autograd, attention is one call and a gated FFN three; behind it, all that is left of products are mm, addmm and bmm.
"""
import argparse
import copy
import glob
import json
import operator
import os
import subprocess
import sys

import torch
import torch._inductor.config as config
import torch.nn.functional as F
from transformers import AttentionInterface, BertConfig, BertModel, DynamicCache, LlamaConfig, LlamaModel

parser = argparse.ArgumentParser()
parser.add_argument("folder", help="of the library, with its wheel")
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--models", default="bert,bmm,llama,decode", help="which, with commas between (default bert,bmm,llama,decode)")
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--no-autotune", action="store_true", help="leave max-autotune out")
parser.add_argument("--json", help="a file for the results, written after each model")
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
    """What the library has kernels of a product for."""
    requests = (blocks.catalogue.manifest(each)["request"] for each in blocks.catalogue.dispatch[operation])
    return {tuple(each["batch"]["count"] if name == "batch" else each[name] for name in names) for each in requests}


LINEAR, BIAS, GELU = (sizes(name, "nk") for name in ("linear", "linear_bias", "linear_gelu"))
GATED = sizes("gated", "mnk")
BATCHED = {name: sizes(name, ("batch", "m", "n", "k")) for name in ("scores", "mixed")}
replaced = []


def replace(graph, node, op, taken, value):
    """Another operator in a node's place."""
    with graph.inserting_before(node):
        new = graph.call_function(op, tuple(taken), options)
    new.meta.update(node.meta)
    new.meta.setdefault(*value)
    node.replace_all_uses_with(new)
    graph.erase_node(node)
    replaced.append(op)


# Before autograd.


def seen(node):
    """The tensor that a node gives, without values."""
    return node.meta["example_value"]


def attending(tensors, causal, scale):
    """The operation that computes attention of Q, K and V of these shapes, and how its kernels have them; None for none."""
    for name in ("causal", "step", "whole"):
        meaning = blocks.catalogue.attention(name)
        if bool(meaning["causal"]) != causal or abs(meaning["scale"] - (scale or tensors[0].shape[-1] ** -0.5)) > 1e-6:
            continue
        for _, _, shapes in blocks.catalogue.kernels(name):
            wanted = [shapes[operand] for operand in ("a", "b", "epilogue0")]
            if all(tuple(x.shape) == each.shape for x, each in zip(tensors, wanted)):
                return name, wanted
    return None


def stored(graph, node, wanted):
    """A tensor [batch, heads, rows, columns] as kernels have it in memory: copied where it lies otherwise."""
    if wanted.lies(seen(node).stride()):
        return node
    swapped = wanted.strides[1] < wanted.strides[2]  # heads of a position are neighbours
    for method, given in [("transpose", (1, 2))] * swapped + [("contiguous", ())] + [("transpose", (1, 2))] * swapped:
        made = graph.call_method(method, (node, *given))
        made.meta["example_value"] = getattr(seen(node), method)(*given)
        node = made
    return node


def is_linear(node, users=1):
    return isinstance(node, torch.fx.Node) and node.target is F.linear and len(node.users) == users


def gated(node):
    """Operands of silu(x Wg^T) * (x Wu^T) that the library has kernels for; None for another node."""
    if node.target not in (operator.mul, torch.mul):
        return None
    for act, up in (node.args, node.args[::-1]):
        if getattr(act, "target", None) is not F.silu or len(act.users) > 1 or not is_linear(act.args[0]) or not is_linear(up):
            continue
        (x, wg, *bias), (y, wu, *other) = act.args[0].args, up.args
        n, k = seen(wg).shape
        if x is y and not any((*bias, *other)) and seen(wu).shape == (n, k) and (seen(x).numel() // k, n, k) in GATED:
            return x, wg, wu
    return None


def before(graph):
    """Attention, gated FFNs, and linear layers with a bias and gelu."""
    for node in list(graph.nodes):
        value = ("example_value", node.meta.get("example_value"))
        if node.target is F.scaled_dot_product_attention:
            tensors, more = [seen(each) for each in node.args[:3]], node.kwargs
            found = attending(tensors, more.get("is_causal", False), more.get("scale"))
            if found is None or more.get("attn_mask") is not None or more.get("dropout_p") or tensors[0].dtype != torch.bfloat16:
                continue
            name, wanted = found
            with graph.inserting_before(node):
                taken = [stored(graph, each, how) for each, how in zip(node.args, wanted)]
            replace(graph, node, getattr(ops, name).default, taken, value)
        elif (taken := gated(node)) is not None:
            replace(graph, node, ops.gated.default, taken, value)
        elif node.target is F.gelu and is_linear(node.args[0]) and node.kwargs.get("approximate", "none") == "none":
            x, weight, bias = node.args[0].args
            if bias is not None and tuple(seen(weight).shape) in GELU:
                replace(graph, node, ops.linear_gelu.default, (x, weight, bias), value)
    graph.eliminate_dead_code()


# Behind autograd.


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


def behind(graph):
    """Products."""
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
        replace(graph, node, op, taken, ("val", None))


# Models.


def attention(module, query, key, value, attention_mask, scaling=None, **_):
    """Of sequences without padding, for transformers: torch's own, without a mask as data."""
    shared = key.shape[1] != query.shape[1]
    causal = query.shape[2] > 1 and getattr(module, "is_causal", False)
    made = F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scaling, enable_gqa=shared)
    return made.transpose(1, 2).contiguous(), None


AttentionInterface.register("unpadded", attention)
PAST = 511  # tokens whose keys and values a decode step finds


def bert(way):
    made = BertConfig(num_hidden_layers=arguments.layers, attn_implementation=way)
    return BertModel(made, add_pooling_layer=False)


def llama():
    widths = {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128}
    return LlamaModel(LlamaConfig(num_hidden_layers=arguments.layers, vocab_size=1024, attn_implementation="unpadded", **widths))


class Forward(torch.nn.Module):
    """Embedded tokens to what the last layer gives."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(inputs_embeds=x, use_cache=False).last_hidden_state if isinstance(self.model, LlamaModel) else self.model(inputs_embeds=x)[0]


class Step(torch.nn.Module):
    """One more token behind PAST others, whose keys and values are random."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        for layer in range(arguments.layers):
            for name in ("keys", "values"):
                self.register_buffer("%s%d" % (name, layer), torch.randn(4, 4, PAST, 128))

    def forward(self, x):
        cache = DynamicCache()
        for layer in range(arguments.layers):
            cache.update(getattr(self, "keys%d" % layer), getattr(self, "values%d" % layer), layer)
        place = torch.full((1, 1), PAST, device=x.device)
        return self.model(inputs_embeds=x, past_key_values=cache, position_ids=place, use_cache=True).last_hidden_state


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


def compare(label, kind, shape):
    """One model: what is replaced, errors against float64, and on a GPU times."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = kind().to(device, torch.bfloat16).eval()
    exact = copy.deepcopy(model).double()
    x = torch.randn(*shape, device=device, dtype=torch.bfloat16)
    gpu = device == "cuda"
    measured = {}

    def measure(name, each):
        measured[name] = (each(x).double() - want).abs().max().item(), gpu and milliseconds(each, x)

    with torch.no_grad():
        want = exact(x.double())
        measure("eager", model)
        if gpu and not arguments.no_autotune:
            measure("max-autotune", torch.compile(model, mode="max-autotune"))
            torch._dynamo.reset()
        replaced.clear()
        with config.patch(pre_grad_custom_pass=before, post_grad_custom_post_pass=behind):
            measure("library", torch.compile(model, mode="reduce-overhead" if gpu else None, fullgraph=True))
    names = [str(each).split(".")[1] for each in replaced]
    by = ", ".join("%d %s" % (names.count(name), name) for name in dict.fromkeys(names))
    print(label, "by the library:", by)
    for name, (error, time) in measured.items():
        print("  %-13s error %.3g%s" % (name, error, ", %.3f ms a forward" % time if time else ""), flush=True)
    if arguments.json:
        rows = {name: {"error": error, **({"ms": time} if time else {})} for name, (error, time) in measured.items()}
        results.append({"model": label, "library": by, "layers": arguments.layers, "shape": shape, **rows})
        where = {"device": torch.cuda.get_device_name() if gpu else "cpu", "torch": torch.__version__}
        with open(arguments.json, "w") as file:
            json.dump({**where, "seed": 0, "models": results}, file, indent=1)
    if not replaced or measured["library"][0] > 2 * measured["eager"][0] + 1e-2:
        sys.exit("the numbers are wrong, or nothing was replaced")


results = []
runs = {
    "bert": ("BERT-shaped, 16 x 128 tokens", lambda: Forward(bert("unpadded")), (16, 128, 768)),
    "bmm": ("BERT-shaped with attention by batched products", lambda: Forward(bert("eager")), (16, 128, 768)),
    "llama": ("Llama-shaped, 4 x 512 tokens", lambda: Forward(llama()), (4, 512, 2048)),
    "decode": ("Llama-shaped, a token behind %d, 4 at once" % PAST, lambda: Step(llama()), (4, 1, 2048)),
}
for name in arguments.models.split(","):
    compare(*runs[name])
