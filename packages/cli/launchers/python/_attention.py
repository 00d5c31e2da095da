"""Attention: the tensors of its kernels as callers have them, and which kernel serves them. No torch here."""
import math

from ._expressions import LaunchError, NoKernel, runs
from ._operands import Operand, _dims

# By the program's names: label, axes in the callers' order, `hg` the heads of K and V with those that share each, `qr` queries, alone or of all these heads.
_TENSORS = {
    "Q": ("q", ("b", "hg", "qr", "d")),
    "K": ("k", ("b", "hg", "s", "d")),
    "V": ("v", ("b", "hg", "s", "e")),
    "qo": ("qOffsets", ("b+1",)),
    "ko": ("kOffsets", ("b+1",)),
    "lengths": ("lengths", ("b",)),
    "table": ("table", ("b", "p")),
    "kScale": ("kScale", ("b", "hg")),
    "vScale": ("vScale", ("b", "hg")),
    "bias": ("bias", ("b", "hg", "qr", "s")),
    "slopes": ("slopes", ("hg",)),
    "dO": ("dOut", ("b", "hg", "qr", "e")),
    "O": ("out", ("b", "hg", "qr", "e")),
    "L": ("lse", ("b", "hg", "qr")),
    "delta": ("delta", ("b", "hg", "qr")),
    "dQ": ("dQ", ("b", "hg", "qr", "d")),
    "dK": ("dK", ("b", "hg", "s", "d")),
    "dV": ("dV", ("b", "hg", "s", "e")),
}
_MEANS = {
    "b": "batch", "b+1": "batch + 1", "hg": "heads", "qr": "queries", "s": "keys", "d": "head dim", "e": "value dim", "p": "pages",
}


def _axis(axes, name):
    """Extent and stride of an axis that may be several of the program's; of one that is shared 1 and 0."""
    if name == "b+1":
        extent, stride = _axis(axes, "b")
        return extent + 1, stride
    if name == "p":
        return _axis(axes, "b")[1], 1
    # Gradients have one name for the columns of all.
    found = [axes[each] for each in ("ed" if name == "e" else name) if each in axes and axes[each]["stride"] > 0]
    return math.prod(each["extent"] for each in found), found[-1]["stride"] if found else 0


def _written(names):
    """What a kernel writes, of the names of its tensors."""
    if "dO" not in names:
        return ("O", "L")
    return ("dQ", "delta") if "dQ" in names else ("dK", "dV")


class Shape:
    """A tensor of a kernel: its operand's name, its shape and its strides."""

    def __init__(self, tensor):
        axes = {each["name"]: each for each in tensor["axes"]}
        label, names = _TENSORS[tensor["name"]]
        pairs = [_axis(axes, name) for name in names]
        self.name, self.label = tensor["operand"], label
        self.shape, self.strides = tuple(extent for extent, _ in pairs), tuple(stride for _, stride in pairs)

    def lies(self, strides):
        """Whether strides are these, where it matters."""
        return all(extent == 1 or one == two for extent, one, two in zip(self.shape, self.strides, strides))


def _taken(manifest):
    """The tensors that a launch takes: all but a V in the rows of K."""
    return [each for each in manifest["tensors"] if each["name"] != "V" or each["operand"] != "b"]


def shapes_of(manifest):
    """The tensors of a kernel by operand."""
    return {each.name: each for each in map(Shape, _taken(manifest))}


def tensors_of(manifest):
    """The operands of an attention operation, in the order of a call: Q, K, V, what tells sequences apart, scales, bias, slopes, and what is written."""
    found = []
    written = _written([each["name"] for each in manifest["tensors"]])
    for tensor in sorted(_taken(manifest), key=lambda each: list(_TENSORS).index(each["name"])):
        label, names = _TENSORS[tensor["name"]]
        rows = any(axis["name"] == "r" for axis in tensor["axes"])
        extents = ", ".join("rows" if rows and name == "qr" else _MEANS[name] for name in names)
        found.append(Operand(tensor["operand"], label, "tensor", tensor["dtype"], extents, out=tensor["name"] in written))
    return found


def environment_of(manifest, num_sms):
    """Values of the names that launch expressions use: all are the problem's own."""
    request = manifest["request"]
    env = {name: request[name] for name in ("m", "n", "k", "alpha", "beta")}
    env.update(numSms=num_sms, batch=request["batch"].get("count", 1))
    for name in "abcd":
        env["ld" + name] = (request[name] or {}).get("ld", 0)
        env["stride" + name.upper()] = request["batch"].get("stride" + name.upper(), 0)
    return env


def serving(operation, kernels, seen, capability):
    """The first kernel that these tensors fit. kernels: (artefact, rule, shapes by operand); seen: views by operand, of which what is not known
    fits. Raises NoKernel with what the nearest kernels want."""
    near = []
    for artefact, rule, shapes in kernels:
        if not runs(rule, capability):
            continue
        wants = []
        for name, view in seen.items():
            wanted = shapes[name]
            if view.shape is None:
                continue
            if view.shape != wanted.shape:
                wants.append((2, "%s of %s, and it is %s" % (wanted.label, _dims(wanted.shape), _dims(view.shape))))
            elif not wanted.lies(view.strides):
                wants.append((1, "%s with strides %s, and they are %s" % (wanted.label, _dims(wanted.strides), _dims(view.strides))))
        if not wants:
            return artefact
        near.append((sum(weight for weight, _ in wants), artefact, [text for _, text in wants]))
    near.sort()
    reasons = "; ".join("kernel %d wants %s" % (artefact, " and ".join(texts)) for _, artefact, texts in near[:3])
    if len(near) > 3:
        reasons += "; %d more" % (len(near) - 3)
    raise NoKernel(
        "%s has no kernel for these tensors on compute capability %d.%d: %s"
        % ((operation,) + capability + (reasons or "its kernels are for other GPUs",))
    )


def check_rank(operation, operands, shapes):
    """Raises LaunchError for a tensor of another rank than its own, before anything is read off it."""
    for operand, shape in zip(operands, shapes):
        rank = operand.rows.count(",") + 1
        if len(shape) != rank:
            text = "%s: %s has shape %s, and the kernels take [%s]"
            raise LaunchError(text % (operation, operand.label, _dims(shape), operand.rows))
