"""What an attention operation is to torch: its schema, its output, and the same by torch, for fallback and gradients."""
import torch

from ._attention import check_rank
from ._torch_reference import _TORCH, through_torch


class Attention:
    """O = softmax(scale * Q.K^T + bias, mask) . V; tensors are [batch, heads, rows, columns], as scaled_dot_product_attention has them."""

    def __init__(self, catalogue, name):
        self.name, self.catalogue = name, catalogue
        self.meaning = catalogue.attention(name)
        self.problem = catalogue.problem(name)
        operands = catalogue.operands(name)
        self.inputs, self.outs = ([each for each in operands if each.out is out] for out in (False, True))
        self.numbers = {}
        tensors = {each.label: each for each in catalogue.kernels(name)[0][2].values()}
        # bshd: heads of a position are neighbours in memory.
        self.positions_first = tensors["out"].strides[2] > tensors["out"].strides[1] if tensors["out"].shape[1] > 1 else False

    @property
    def signature(self):
        """The operator's schema without its name."""
        given = "(%s)" % ", ".join("Tensor" for _ in self.outs) if len(self.outs) > 1 else "Tensor"
        return "(%s, *, bool fallback=False) -> %s" % (", ".join("Tensor %s" % each.label for each in self.inputs), given)

    @property
    def document(self):
        """For help()."""
        lines = ["%s%s\n" % (self.name, self.signature)]
        lines += ["    %s%s: [%s], %s" % ("out " if each.out else "", each.label, each.rows, each.dtype) for each in self.inputs + self.outs]
        order = "batch, queries, heads, columns" if self.positions_first else "batch, heads, queries, columns"
        lines.append("    in memory: %s" % order)
        lines.append("    fallback: compute with torch where no kernel serves, instead of raising NoKernel")
        return "\n".join(lines)

    def shapes_out(self, shapes, strides):
        """Shape, strides and dtype of each output, and that it does not begin as zero: O, and where the kernels store them the logarithms of sums."""
        check_rank(self.name, self.inputs, shapes)
        (b, h, q, _), e = shapes[0], shapes[2][3]
        made = (q * h * e, e, h * e, 1) if self.positions_first else (h * q * e, q * e, e, 1)
        yield (b, h, q, e), made, _TORCH[self.outs[0].dtype], False
        if len(self.outs) > 1:
            yield (b, h, q), (h * q, q, 1), torch.float32, False

    def plan(self, library, views, shapes, strides, numbers):
        """The launch of a library for these tensors."""
        return library.plan_attention(self.name, views)

    def _mask(self, queries, keys, device):
        """Whether a query sees a key, [queries, keys]; None where all see all."""
        causal, window = self.meaning["causal"], self.meaning["window"]
        if not causal and window is None:
            return None
        own = torch.arange(queries, device=device)[:, None] + (0 if causal == "top-left" else keys - queries)
        key = torch.arange(keys, device=device)[None, :]
        ahead = 0 if causal else window - 1
        seen = key <= own + ahead
        return seen if window is None else seen & (key > own - window)

    def reference(self, q, k, v, *added):
        """The operation by torch, in float32."""
        given = dict(zip([each.label for each in self.inputs[3:]], added))
        shared = q.shape[1] // k.shape[1]
        keys, values = (each.float().repeat_interleave(shared, 1) if shared > 1 else each.float() for each in (k, v))
        scores = torch.matmul(q.float(), keys.transpose(-1, -2)) * self.meaning["scale"]
        cap = self.meaning["softCap"]
        if cap is not None:
            scores = cap * torch.tanh(scores / cap)
        if "bias" in given:
            scores = scores + given["bias"].float()
        queries, count = scores.shape[-2:]
        if "slopes" in given:
            own = torch.arange(queries, device=q.device)[:, None] + (0 if self.meaning["causal"] == "top-left" else count - queries)
            scores = scores - given["slopes"][:, None, None] * (own - torch.arange(count, device=q.device)[None, :]).abs()
        seen = self._mask(queries, count, q.device)
        if seen is not None:
            scores = scores.masked_fill(~seen, float("-inf"))
        # A query that sees no key has an output of 0.
        weights = torch.softmax(scores, -1).masked_fill((scores == float("-inf")).all(-1, keepdim=True), 0.0)
        made = torch.matmul(weights.to(v.dtype).float(), values).to(_TORCH[self.outs[0].dtype])
        made = made.transpose(1, 2).contiguous().transpose(1, 2) if self.positions_first else made.contiguous()
        return (made, torch.logsumexp(scores, -1)) if len(self.outs) > 1 else made

    def backward(self, ctx, *grads):
        """Gradients by torch, if that was asked for."""
        return through_torch(self, "attention", ctx, grads)
