"""flash-linear-attention's operators and modules, forward and backward, on one head of 64 or 128 steps."""
import torch

SOURCE = "fla-org/flash-linear-attention"


def both(call, *inputs, **named):
    out = call(*inputs, **named)
    outs = [one for one in (out if isinstance(out, tuple) else (out,)) if isinstance(one, torch.Tensor) and one.requires_grad]
    if outs:
        torch.autograd.backward(outs, [torch.randn_like(one) for one in outs])


def t(*shape, dtype=torch.bfloat16, grad=True):
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


def gate(*shape, dtype=torch.float32):
    return torch.nn.functional.logsigmoid(torch.randn(*shape)).to(dtype).requires_grad_()


def recipes():
    import fla.ops as ops
    from fla.modules import activations, layernorm, l2norm, rotary, token_shift, fused_cross_entropy
    from fla.ops.utils import cumsum, logsumexp, pooling, softmax, solve_tril

    b, n, h, d = 1, 64, 1, 64
    q = lambda: t(b, n, h, d)
    beta = lambda: torch.rand(b, n, h).bfloat16().requires_grad_()
    f32 = torch.float32
    return {
        "chunk_linear_attn": lambda: both(ops.chunk_linear_attn, q(), q(), q(), normalize=False),
        "fused_recurrent_linear_attn": lambda: both(ops.fused_recurrent_linear_attn, q(), q(), q(), normalize=False),
        "chunk_simple_gla": lambda: both(ops.chunk_simple_gla, q(), q(), q(), gate(b, n, h)),
        "chunk_gla": lambda: both(ops.chunk_gla, q(), q(), q(), gate(b, n, h, d)),
        "fused_recurrent_gla": lambda: both(ops.fused_recurrent_gla, q(), q(), q(), gate(b, n, h, d)),
        "chunk_retention": lambda: both(ops.chunk_retention, q(), q(), q()),
        "parallel_retention": lambda: both(ops.parallel_retention, q(), q(), q()),
        "chunk_delta_rule": lambda: both(ops.chunk_delta_rule, q(), q(), q(), beta()),
        "fused_recurrent_delta_rule": lambda: both(ops.fused_recurrent_delta_rule, q(), q(), q(), beta()),
        "chunk_gated_delta_rule": lambda: both(ops.chunk_gated_delta_rule, q(), q(), q(), g=gate(b, n, h), beta=beta()),
        "parallel_attn": lambda: both(ops.parallel_attn, t(b, 128, 2, d), t(b, 128, 1, d), t(b, 128, 1, d)),
        "forgetting_attn": lambda: both(ops.parallel_forgetting_attn, t(b, 128, 1, d), t(b, 128, 1, d), t(b, 128, 1, d), gate(b, 128, 1)),
        "fused_recurrent_hgrn": lambda: both(ops.fused_recurrent_hgrn, t(b, n, d, dtype=f32), gate(b, n, d)),
        "fused_recurrent_rwkv6": lambda: both(ops.fused_recurrent_rwkv6, q(), q(), q(), gate(b, n, h, d), t(h, d)),
        "parallel_based": lambda: both(ops.parallel_based, t(b, 128, h, 16), t(b, 128, h, 16), t(b, 128, h, d)),
        "layer_norm": lambda: both(layernorm.layer_norm, t(16, 128), t(128), t(128)),
        "rms_norm": lambda: both(layernorm.rms_norm, t(16, 128), t(128), None),
        "l2norm": lambda: both(l2norm.l2norm, t(16, 128)),
        "rotary": lambda: both(rotary.rotary_embedding, t(1, 32, 2, 64), torch.randn(32, 32), torch.randn(32, 32)),
        "token_shift": lambda: both(token_shift.token_shift, t(2, 32, 64)),
        "logsigmoid": lambda: both(activations.logsigmoid, t(16, 100)),
        "swiglu": lambda: both(activations.swiglu, t(16, 100), t(16, 100)),
        "cross_entropy": lambda: both(lambda x: fused_cross_entropy.cross_entropy_loss(x, torch.randint(0, 500, (16,))), t(16, 500, dtype=f32)),
        "softmax_fwd": lambda: softmax.softmax_fwd(t(16, 64, dtype=f32, grad=False)),
        "logsumexp": lambda: logsumexp.logsumexp_fwd(t(16, 200, dtype=f32, grad=False)),
        "global_cumsum": lambda: cumsum.chunk_global_cumsum(t(1, 200, 2, 16, dtype=f32, grad=False)),
        "local_cumsum": lambda: cumsum.chunk_local_cumsum(t(1, 128, 2, dtype=f32, grad=False), 64),
        "mean_pooling": lambda: both(pooling.mean_pooling, t(1, 128, 2, 64), 64),
        "solve_tril": lambda: solve_tril.solve_tril(torch.tril(torch.randn(1, 64, 1, 64), -1) * 0.1),
    }
