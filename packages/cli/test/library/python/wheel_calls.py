"""Right and wrong calls of the wheel `linear`, by the torch beside this file: a line of JSON for each."""
import copy
import inspect
import json
import os
import pickle
import threading

import torch
from torch import Tensor, state

import linear
from linear import linear_gelu

journal = open(os.environ["STUB_LOG"])
M, N, K = 128, 256, 192
CPU, OTHER = torch.device("cpu"), torch.device("cuda", 1)


def x(**over):
    return Tensor((M, K), **over)


def weight(**over):
    return Tensor((N, K), **over)


def bias(**over):
    return Tensor((N,), **over)


def attempt(name, call):
    """How a call ends, and what torch and the driver were asked for."""
    state.calls.clear()
    state.views = state.guards = 0
    journal.read()
    try:
        made = call()
        outs = made if isinstance(made, (tuple, list)) else (made,)
        told = {"made": [None if each is None else [list(each.shape), list(each.stride()), each.dtype.name] for each in outs]}
    except Exception as error:
        told = {"error": type(error).__name__, "message": str(error)}
    driver = [json.loads(line) for line in journal.read().splitlines()]
    print(json.dumps({"name": name, **told, "calls": list(state.calls), "driver": driver, "views": state.views, "guards": state.guards}))


def graph(name, call):
    """A call and the gradients of its inputs."""
    attempt(name, lambda: call().backward(Tensor((M, N))))


class Array:
    """What cupy and jax have."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self):
        return self.tensor

    def __array_namespace__(self):
        class Namespace:
            @staticmethod
            def from_dlpack(made):
                made.mine = True
                return made

        return Namespace


known = x(), weight(), bias()
attempt("right", lambda: linear_gelu(*known))
attempt("known", lambda: linear_gelu(*known))
attempt("new pointers", lambda: linear_gelu(x(), weight(), bias()))
attempt("keywords", lambda: linear_gelu(known[0], bias=known[2], weight=known[1]))
attempt("parameter", lambda: linear_gelu(known[0], torch.nn.Parameter((N, K)), known[2]))
attempt("leading dimensions", lambda: linear_gelu(Tensor((2, 64, K)), weight(), bias()))
attempt("transposed view", lambda: linear_gelu(x(), Tensor((K, N), strides=(1, K)), bias()))
attempt("dlpack", lambda: linear_gelu(*map(Array, known)))
attempt("empty", lambda: linear_gelu(Tensor((0, K)), weight(), bias()))
attempt("two results", lambda: linear.two_results(x(), weight()))
attempt("gated", lambda: linear.gated(x(), Tensor((2 * N, K)), bias()))
attempt("gated batch", lambda: linear.gated_batch(Tensor((2, 64, 64)), Tensor((2, 64, 128))))
attempt("gated two", lambda: linear.gated_two(x(), weight(), weight()))
attempt("other factor", lambda: linear.gated_two(x(), weight(), Tensor((2 * N, K))))
attempt("one factor", lambda: linear.gated(x(), weight(), bias()))
attempt("odd columns", lambda: linear.gated(x(), Tensor((2 * N - 1, K)), bias()))
attempt("gated gradient", lambda: linear.gated(x(requires_grad=True), Tensor((2 * N, K)), bias()).backward(Tensor((M, N))))


def heads(count, **over):
    """[2, count, 128, 64], the heads of a position neighbours in memory."""
    return Tensor((2, count, 128, 64), strides=(128 * count * 64, 64, count * 64, 1), **over)


attending = heads(4), heads(2), heads(2)
for name in ("attention", "attention known"):
    attempt(name, lambda: linear.flash(*attending))
attempt("attention fake", lambda: torch.ops.linear.flash.fake(*attending))
attempt("attention fallback", lambda: linear.flash(Tensor((2, 4, 100, 64)), *attending[1:], fallback=True))
attempt("attention queries", lambda: linear.flash(Tensor((2, 4, 100, 64)), *attending[1:]))
attempt("attention strides", lambda: linear.flash(attending[0], Tensor((2, 2, 128, 64)), attending[2]))
attempt("attention dtype", lambda: linear.flash(attending[0], heads(2, dtype=torch.bfloat16), attending[2]))
attempt("attention rank", lambda: linear.flash(Tensor((8, 128, 64)), *attending[1:]))
attempt("attention cpu", lambda: linear.flash(attending[0], attending[1], heads(2, device=CPU)))
attempt("attention gradient", lambda: linear.flash(heads(4, requires_grad=True), *attending[1:]).backward(heads(4)))
print(json.dumps({"name": "attention schema", "text": linear.flash.__doc__}))
logged = Tensor((1, 2, 32, 32)), Tensor((1, 2, 48, 32)), Tensor((1, 2, 48, 32))
attempt("attention lse", lambda: linear.flash_lse(*logged))
attempt("attention lse fake", lambda: torch.ops.linear.flash_lse.fake(*logged))
attempt("attention lse fallback", lambda: linear.flash_lse(Tensor((1, 2, 30, 32)), *logged[1:], fallback=True))
print(json.dumps({"name": "attention lse schema", "text": linear.flash_lse.__doc__}))
attempt("workspace", lambda: linear.split(Tensor((64, 2048)), Tensor((2048, 64))))
attempt("scaled", lambda: linear.scaled(Tensor((64, 64)), Tensor((64, 64)), alpha=2.0))

attempt("dtype", lambda: linear_gelu(x(dtype=torch.float32), weight(), bias()))
attempt("bias dtype", lambda: linear_gelu(x(), weight(), bias(dtype=torch.float32)))
attempt("cpu", lambda: linear_gelu(x(device=CPU), weight(device=CPU), bias(device=CPU)))
attempt("one on cpu", lambda: linear_gelu(x(), weight(device=CPU), bias()))
attempt("other gpu", lambda: linear_gelu(x(), weight(device=OTHER), bias()))
attempt("strided view", lambda: linear_gelu(x(strides=(2 * K, 2)), weight(), bias()))
attempt("padded rows", lambda: linear_gelu(x(strides=(2 * K, 1)), weight(), bias()))
attempt("expanded rows", lambda: linear_gelu(x(strides=(0, 1)), weight(), bias()))
attempt("rows at no distance", lambda: linear_gelu(Tensor((2, 64, K), strides=(100 * K, K, 1)), weight(), bias()))
attempt("wrong k", lambda: linear_gelu(x(), Tensor((N, 64)), bias()))
attempt("weight as k, n", lambda: linear_gelu(x(), Tensor((K, N)), bias()))
attempt("weight with other strides", lambda: linear_gelu(x(), weight(strides=(1, N)), bias()))
attempt("wrong k of a view", lambda: linear_gelu(x(), Tensor((64, N), strides=(1, 64)), bias()))
attempt("wrong bias", lambda: linear_gelu(x(), weight(), Tensor((M,))))
attempt("bias strides", lambda: linear_gelu(x(), weight(), Tensor((N,), strides=(2,))))
attempt("no such size", lambda: linear_gelu(Tensor((77, K)), weight(), bias()))
attempt("unaligned", lambda: linear_gelu(x(address=0x30000002), weight(), bias()))
attempt("alpha", lambda: linear_gelu(*known, alpha=2.0))
attempt("too few", lambda: linear_gelu(*known[:2]))
attempt("too many", lambda: linear_gelu(*known, known[0]))
attempt("no option", lambda: linear_gelu(*known, stream=3))
attempt("no tensor", lambda: linear_gelu(known[0], 3, known[2]))
attempt("none", lambda: linear_gelu(known[0], None, known[2]))
attempt("no operation", lambda: linear.linear_relu)
attempt("fallback size", lambda: linear_gelu(Tensor((77, K)), weight(), bias(), fallback=True))
attempt("fallback cpu", lambda: linear_gelu(x(device=CPU), weight(device=CPU), bias(device=CPU), fallback=True))
attempt("fallback dtype", lambda: linear_gelu(x(dtype=torch.float32), weight(), bias(), fallback=True))

with torch.autocast("cuda"):
    attempt("autocast", lambda: linear_gelu(x(dtype=torch.float32), weight(dtype=torch.float32), bias()))
    attempt("autocast known", lambda: linear_gelu(*known))
state.vmap = True
attempt("vmap", lambda: linear_gelu(*known))
state.vmap = False
state.compiling = True
attempt("compiling", lambda: type(linear_gelu).__call__(linear_gelu, *known))  # as compilers trace it
state.compiling = False
attempt("fake", lambda: torch.ops.linear.linear_gelu.fake(*known))
needing = x(requires_grad=True), weight(requires_grad=True), bias(requires_grad=True)
graph("gradients", lambda: linear_gelu(*needing))
with torch.no_grad():
    attempt("no_grad", lambda: linear_gelu(*needing))
    attempt("no_grad known", lambda: linear_gelu(*needing))
attempt("gradients known", lambda: linear_gelu(*needing))
attempt("no gradients", lambda: linear.scaled(Tensor((64, 64), requires_grad=True), Tensor((64, 64))).backward(Tensor((64, 64))))
torch.set_device(1)
attempt("another current device", lambda: linear_gelu(*known))
torch.set_device(0)
thread = threading.Thread(target=lambda: attempt("another thread", lambda: linear_gelu(*known)))
thread.start()
thread.join()
for name, wrong in (("unaligned again", 0x30000002), ("missing", 0)):
    attempt(name, lambda: linear_gelu(x(address=wrong), weight(), bias()))
attempt("known after that", lambda: linear_gelu(*known))
attempt("split again", lambda: linear.split(Tensor((64, 2048)), Tensor((2048, 64))))
print(json.dumps({"name": "shim", "text": linear._shim.state()}))
print(json.dumps({"name": "schema", "text": torch.ops.linear.linear_gelu.schema}))
print(json.dumps({"name": "help", "text": linear_gelu.__doc__}))
same = copy.deepcopy(linear_gelu) is linear_gelu, pickle.loads(pickle.dumps(linear_gelu)) is linear_gelu
said = linear_gelu.__module__, linear_gelu.__name__, list(inspect.signature(linear_gelu).parameters), *same
print(json.dumps({"name": "copies", "text": " ".join(map(str, said))}))
