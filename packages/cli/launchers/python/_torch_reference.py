"""What an operation of a kernel library is to torch: its schema, its outputs, and the same by torch, for fallback and gradients."""
import functools
import itertools
import math
import operator
import re

import torch

from ._expressions import LaunchError
from ._operands import _DTYPES, _dims, _packed, has_both

_TORCH = {ours: getattr(torch, theirs, None) for theirs, ours in _DTYPES.items()}
_TORCH["tf32"] = torch.float32

_ACTIVATIONS = {
    "relu": (torch.relu, lambda dy, x: dy * (x > 0)),
    "gelu": (torch.nn.functional.gelu, lambda dy, x: torch.ops.aten.gelu_backward(dy, x, approximate="none")),
    "gelu_tanh": (
        functools.partial(torch.nn.functional.gelu, approximate="tanh"),
        lambda dy, x: torch.ops.aten.gelu_backward(dy, x, approximate="tanh"),
    ),
    "silu": (torch.nn.functional.silu, lambda dy, x: torch.ops.aten.silu_backward(dy, x)),
    "sigmoid": (torch.sigmoid, lambda dy, x: dy * torch.sigmoid(x) * (1 - torch.sigmoid(x))),
    "tanh": (torch.tanh, lambda dy, x: dy * (1 - torch.tanh(x) ** 2)),
}
# Approximate forms are torch's exact ones.
_ACTIVATIONS.update(
    {name + "_approx": _ACTIVATIONS[name] for name in ("gelu_tanh", "silu", "sigmoid", "tanh")}
)


def _where(wins):
    """The first of two values unless the second one wins over it, as kernels have it: NaN of the first stays."""

    def chosen(x, y):
        x, y = torch.as_tensor(x), torch.as_tensor(y)
        return torch.where(wins(x, y), y, x)

    return chosen


def _rounded(dtype):
    return lambda x: x.to(_TORCH[dtype]).to(x.dtype)


@functools.cache
def _functions():
    """What expressions call."""
    found = {name: of for name, (of, _) in _ACTIVATIONS.items()}
    found.update({name: _rounded(name) for name in ("f16", "bf16", "e4m3", "e5m2")})
    found.update(abs=torch.abs, exp=torch.exp, max=_where(torch.lt), min=_where(torch.gt))
    return found


_TOKEN = re.compile(r"\d[\d.]*(?:e[-+]?\d+)?|\$\d+|[a-z_][a-z_0-9]*|[-+*/(),]")


def _map(text, value, loaded, up=None):
    """The expression of a map step; nothing but numbers, operators and functions of ours is evaluated."""
    tokens = _TOKEN.findall(text)
    names = {token for token in tokens if token[0].isalpha()}
    if "".join(tokens) != text or not names <= {"acc", *(() if up is None else ("up",)), *_functions()}:
        raise LaunchError("a library's expression is malformed: %s" % text)
    code = "".join("loaded[%s]" % token[1:] if token[0] == "$" else token for token in tokens)
    return eval(code, {"__builtins__": {}, **_functions(), "acc": value, "up": up, "loaded": loaded})


def _summed(gradient, operand, by):
    """The gradient of what an epilogue step adds or multiplies by: summed over what it is spread over."""
    if by == "n":
        gradient = gradient.reshape(-1, gradient.shape[-1]).sum(0)
    elif by == "m":
        gradient = gradient.reshape(-1, operand.shape[0], gradient.shape[-1]).sum((0, 2))
    elif by == "tensor":
        gradient = gradient.sum().reshape(operand.shape)
    return gradient.to(operand.dtype)


def _like(gradient, operand):
    """A matrix as it lies in memory, seen as its operand was."""
    return gradient if gradient.shape == operand.shape and operand.stride(-1) == 1 else gradient.transpose(-1, -2)


def through_torch(operation, what, ctx, grads):
    """Gradients of what only torch has one of: computed again, if that was asked for."""
    numbers = dict(ctx.options)
    if not numbers.pop("fallback", False):
        raise LaunchError("%s has no gradient: %s's is torch's alone; call with fallback=True" % (operation.name, what))
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in ctx.saved_tensors]
        outs = operation.reference(*leaves, **numbers)
    outs = outs if isinstance(outs, tuple) else (outs,)
    given = [(out, grad) for out, grad in zip(outs, grads) if grad is not None]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    made = iter(torch.autograd.grad([out for out, _ in given], wanted, [grad for _, grad in given], allow_unused=True))
    return tuple(next(made) if leaf.requires_grad else None for leaf in leaves)


class Described:
    """One operation: what it takes and gives."""

    def __init__(self, catalogue, name):
        self.name, self.catalogue = name, catalogue
        self.problem = catalogue.problem(name)
        operands = catalogue.operands(name)
        self.inputs = [each for each in operands if not each.out and each.kind != "number"]
        self.outs = [each for each in operands if each.out]
        self.numbers = {each.label: each.name for each in operands if each.kind == "number"}
        self.numbers.update((factor, factor) for factor in ("alpha", "beta") if self.problem[factor] == "runtime")
        self.gated = self.problem.get("gated")
        self.batched = self.problem["batch"]["kind"] == "strided"
        self.steps = {each.name: index for index, each in enumerate(self.inputs)}

    @property
    def signature(self):
        """The operator's schema without its name."""
        taken = ["Tensor %s" % each.label for each in self.inputs]
        factors = ["float %s=%s" % (label, 0.0 if label == "beta" else 1.0) for label in self.numbers]
        given = ", ".join("Tensor" for _ in self.outs)
        return "(%s) -> %s" % (", ".join([*taken, "*", *factors, "bool fallback=False"]), "(%s)" % given if len(self.outs) > 1 else given)

    @property
    def document(self):
        """For help()."""
        lines = ["%s%s\n" % (self.name, self.signature)]
        for each in self.inputs + self.outs:
            extents = ", ".join(filter(None, each.memory)) if each.kind == "matrix" else each.rows or ""
            lines.append("    %s%s: [%s], %s" % ("out " if each.out else "", each.label, extents, each.dtype))
        lines.append("    fallback: compute with torch where no kernel serves, instead of raising NoKernel")
        return "\n".join(lines)

    def sizes(self, shapes, strides):
        """(m, n, k, batch) that A and B say. Where they do not agree with each other or with the rest, fit() says so."""

        def extents(operand, shape, stride):
            if len(shape) == 0:
                raise LaunchError("%s: %s has no dimensions" % (self.name, operand.label))
            if self.batched and len(shape) == 3:
                shape, stride = shape[1:], stride[1:]
            if len(shape) == 1:
                return 1, shape[0]
            if operand.layout == "row":
                return math.prod(shape[:-1]), shape[-1]
            logical = len(shape) == 2 and stride[0] == 1 and stride[1] != 1
            return (shape[0], shape[1]) if logical else (shape[-1], shape[-2])

        m, k = extents(self.inputs[0], shapes[0], strides[0])
        depth, n = extents(self.inputs[1], shapes[1], strides[1])
        if depth != k:
            one, two = self.inputs[:2]
            # As the view with rows first, which its strides say.
            turned = two.layout == "col" and depth != shapes[1][-1]
            if turned and shapes[1][-1] == k:
                text = "%s: %s has strides %s, and the kernels take k contiguous (stride 1, not %d)"
                raise LaunchError(text % (self.name, two.label, _dims(strides[1]), strides[1][-1]))
            text = "%s: %s has shape %s = %s, whose k is %s; that of %s is %s"
            names = two.memory[::-1] if turned else two.memory
            raise LaunchError(text % (self.name, two.label, _dims(shapes[1]), _dims(names), depth, one.label, k))
        if has_both(self.problem):
            if n % 2 != 0:
                text = "%s: %s has shape %s, and %s columns are no two factors"
                raise LaunchError(text % (self.name, self.inputs[1].label, _dims(shapes[1]), n))
            n //= 2
        return m, n, k, shapes[0][0] if self.batched and len(shapes[0]) == 3 else 1

    def shapes_out(self, shapes, strides):
        """Of each output shape, strides, dtype and whether it begins as zero."""
        m, n, k, batch = self.sizes(shapes, strides)
        extents = {"m": m, "n": n}
        row = self.inputs[0].layout == "row" and not self.batched
        lead = tuple(shapes[0][:-1]) if row else (batch, m) if self.batched else (m,)
        for each in self.outs:
            dtype = _TORCH[each.dtype]
            if each.kind == "value":
                yield (batch,) if self.batched else (), (1,) if self.batched else (), dtype, each.reduced
            elif each.kind == "vector":
                shape = (batch, extents[each.rows]) if self.batched else (extents[each.rows],)
                yield shape, _packed(shape), dtype, each.reduced
            else:
                made = self.catalogue.defaults(self.name)["d"][0] if each.name == "d" else each.ld
                ld = made if isinstance(made, int) else extents[each.memory[1]]
                if each.layout == "row":
                    shape = lead + (n,)
                    packed = tuple(reversed(list(itertools.accumulate(reversed(lead[1:]), operator.mul, initial=ld))))
                    yield shape, (packed if lead else ()) + (1,), dtype, False
                else:
                    shape = (batch, m, n) if self.batched else (m, n)
                    yield shape, (ld * n, 1, ld) if self.batched else (1, ld), dtype, False

    # The same in torch, for fallback and gradients.

    def _logical(self, index, tensor):
        operand = self.inputs[index]
        if operand.layout == "row" or (tensor.dim() == 2 and tensor.stride(0) == 1 and tensor.stride(1) != 1):
            return tensor
        return tensor.transpose(-1, -2)

    def _chain(self, value, tensors, numbers, up=None):
        """The epilogue on a value (of a gated product with the second sum beside it): what each step began with, and the outputs."""
        before, outs, loaded = [], [], {}
        for step, each in enumerate(self.problem["epilogue"]):
            before.append(value)
            kind, name = each["kind"], "epilogue%d" % step
            other = tensors[self.steps[name]] if name in self.steps else None
            if other is not None and each.get("along", each.get("by")) == "m":
                other = other.unsqueeze(-1)
            if kind == "activation":
                value = _ACTIVATIONS[each["fn"]][0](value)
            elif kind == "clamp":
                value = value.clamp(each["min"], each["max"])
            elif kind in ("bias", "residual"):
                value = value + other
            elif kind == "gate":
                value = value * other
            elif kind == "scale":
                value = value * (other if other is not None else numbers.get(self._label(name), 1.0))
            elif kind in ("load", "source"):
                loaded[step] = other if other is not None else numbers.get(self._label(name), 1.0)
            elif kind == "map":
                value = _map(each["expression"], value, loaded, up)
            elif kind == "factor":
                pass
            elif kind == "cast":
                value = value.to(_TORCH[each["dtype"]]).to(value.dtype)
            elif kind == "output":
                outs.append(value.to(_TORCH[each["operand"]["dtype"]]))
            else:
                dims = {"n": -1, "m": -2, "all": (-2, -1)}[each["over"]]
                outs.append((value.float().sum(dims) if each["op"] == "sum" else value.abs().amax(dims)).to(_TORCH[each["dtype"]]))
        return before, [value.to(_TORCH[self.problem["d"]["dtype"]]), *outs]

    def _through(self, step, value, dy, tensors, numbers, loads):
        """The gradient of what a map began with; those of what was loaded for it are added to `loads`."""
        steps = self.problem["epilogue"]
        taken = {at: self.steps.get("epilogue%d" % at) for at in range(step) if steps[at]["kind"] in ("load", "source")}
        leaves = {at: tensors[index].detach().requires_grad_() for at, index in taken.items() if index is not None}
        with torch.enable_grad():
            value = value.detach().requires_grad_()
            wide = {at: each.unsqueeze(-1) if steps[at].get("by") == "m" else each for at, each in leaves.items()}
            given = {at: numbers.get(self._label("epilogue%d" % at), 1.0) for at in taken if at not in wide}
            made = _map(steps[step]["expression"], value, {**wide, **given})
        first, *others = torch.autograd.grad(made, [value, *leaves.values()], dy.to(made.dtype), allow_unused=True)
        for at, each in zip(leaves, others):
            if each is not None:
                loads[at] = each if at not in loads else loads[at] + each
        return torch.zeros_like(value) if first is None else first

    def _label(self, name):
        return next(label for label, each in self.numbers.items() if each == name)

    def _factor(self, name, numbers):
        fixed = self.problem[name]
        return numbers.get(name, 1.0 if name == "alpha" else 0.0) if fixed == "runtime" else fixed

    def _accumulator(self, product, tensors, numbers):
        alpha, beta = self._factor("alpha", numbers), self._factor("beta", numbers)
        value = product if alpha == 1 else product * alpha
        return value + beta * tensors[self.steps["c"]] if beta != 0 and "c" in self.steps else value

    def reference(self, *tensors, **numbers):
        """The operation by torch."""
        a, b = self._logical(0, tensors[0]), self._logical(1, tensors[1])
        if self.problem["a"]["dtype"] not in ("f16", "bf16", "f32", "tf32", "f64"):
            a, b = a.float(), b.float()
        value, up = self._accumulator(torch.matmul(a, b), tensors, numbers), None
        if self.gated == "matrices":
            index = next(i for i, each in enumerate(self.inputs) if (each.rows, each.columns) == ("k", "n") and each.name != "b")
            up = self._accumulator(torch.matmul(a, self._logical(index, tensors[index]).to(b.dtype)), tensors, numbers)
        elif self.gated is not None:
            n = value.shape[-1] // 2
            value, up = (value[..., ::2], value[..., 1::2]) if self.gated == "interleaved" else (value[..., :n], value[..., n:])
        _, outs = self._chain(value, tensors, numbers, up)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def plan(self, library, views, shapes, strides, numbers):
        """The launch of a library for these operands."""
        m, n, k, batch = self.sizes(shapes, strides)
        given = {self.numbers[label]: value for label, value in numbers.items()}
        if self.batched:
            given["batch"] = batch
        return library.plan(self.name, (m, n, k), views, given)

    def _product(self, name, torch_way, fallback, *tensors):
        """A product by the operation of that name of the same library."""
        if name in self.catalogue.dispatch:
            return getattr(getattr(torch.ops, self.catalogue.index["name"]), name).default(*tensors, fallback=fallback)
        if fallback:
            return torch_way()
        text = '%s has no gradient: the library lacks %s; compile it with "gradients": true, or call with fallback=True'
        raise LaunchError(text % (self.name, name))

    def backward(self, ctx, *grads):
        """Gradients of the inputs: the epilogue's by torch, those of A and B by products of the same library."""
        tensors, numbers = ctx.saved_tensors, dict(ctx.options)
        fallback = numbers.pop("fallback", False)
        found = [None] * len(tensors)
        if self.gated is not None:
            return through_torch(self, "a gated product", ctx, grads)
        steps = self.problem["epilogue"]
        before = [None] * len(steps)
        a, b = tensors[0], tensors[1]
        if any(each["kind"] not in ("bias", "residual", "cast", "output") for each in steps):
            logical = functools.partial(torch.matmul, self._logical(0, a), self._logical(1, b))
            product = self._product(self.name + "_product", logical, fallback, a, b)
            before, _ = self._chain(self._accumulator(product, tensors, numbers), tensors, numbers)
        dy, extra = grads[0], iter(grads[1:])
        loads = {}
        behind = {step: next(extra) for step, each in enumerate(steps) if each["kind"] in ("output", "reduce")}
        for step, each in reversed(list(enumerate(steps))):
            kind, name = each["kind"], "epilogue%d" % step
            index = self.steps.get(name)
            other = None if index is None else tensors[index]
            by = each.get("along", each.get("by"))
            wide = other.unsqueeze(-1) if other is not None and by == "m" else other
            if kind == "activation":
                dy = _ACTIVATIONS[each["fn"]][1](dy, before[step])
            elif kind == "clamp":
                dy = dy * ((before[step] >= each["min"]) & (before[step] <= each["max"]))
            elif kind == "output":
                dy = dy if behind[step] is None else dy + behind[step]
            elif kind == "reduce":
                if behind[step] is not None and each["op"] == "sum":
                    spread = {"n": lambda g: g.unsqueeze(-1), "m": lambda g: g.unsqueeze(-2), "all": lambda g: g}[each["over"]]
                    dy = dy + spread(behind[step]).to(dy.dtype)
            elif kind == "map":
                dy = self._through(step, before[step], dy, tensors, numbers, loads)
            if kind in ("load", "source"):
                if index is not None and ctx.needs_input_grad[index] and step in loads:
                    found[index] = loads[step]
            elif index is not None and ctx.needs_input_grad[index]:
                of = dy if kind in ("bias", "residual") else dy * before[step]
                found[index] = _summed(of, other, by)
            if kind in ("gate", "scale"):
                dy = dy * (wide if wide is not None else numbers.get(self._label(name), 1.0))
        if "c" in self.steps and ctx.needs_input_grad[self.steps["c"]]:
            found[self.steps["c"]] = (dy * self._factor("beta", numbers)).to(tensors[self.steps["c"]].dtype)
        alpha = self._factor("alpha", numbers)
        dy = (dy if alpha == 1 else dy * alpha).to(a.dtype).contiguous()
        flat = dy if self.batched else dy.reshape(-1, dy.shape[-1])
        la, lb = self._logical(0, a), self._logical(1, b)
        if ctx.needs_input_grad[0]:
            row = self.inputs[0].layout == "row"
            by_torch = lambda: dy @ lb.transpose(-1, -2) if row else lb @ dy.transpose(-1, -2)  # noqa: E731
            taken = (flat, b) if row else (b, flat)
            got = self._product(self.name + "_da", by_torch, fallback, *taken)
            found[0] = got.reshape(a.shape) if row else _like(got, a)
        if ctx.needs_input_grad[1]:
            rows = la if self.batched else la.reshape(-1, la.shape[-1])
            row = self.inputs[1].layout == "row"
            by_torch = lambda: (rows.transpose(-1, -2) @ flat) if row else (flat.transpose(-1, -2) @ rows)  # noqa: E731
            held = a if self.batched or self.inputs[0].layout == "col" else a.reshape(-1, a.shape[-1])
            taken = (held, flat) if row else (flat, held)
            found[1] = _like(self._product(self.name + "_db", by_torch, fallback, *taken), b)
        return tuple(found)
