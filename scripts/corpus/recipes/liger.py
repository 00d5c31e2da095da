"""Liger-Kernel's operators, forward and backward, on small tensors."""
import torch

SOURCE = "linkedin/Liger-Kernel"


def both(call, *inputs):
    """The operator, and its backward pass where it has one."""
    out = call(*inputs)
    outs = [one for one in (out if isinstance(out, tuple) else (out,)) if isinstance(one, torch.Tensor) and one.requires_grad]
    if outs:
        torch.autograd.backward(outs, [torch.randn_like(one) for one in outs])


def t(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(*shape) * scale).to(dtype).requires_grad_()


def recipes():
    import liger_kernel.ops as ops

    bf = torch.bfloat16
    rows, width = 8, 512
    labels = lambda n, v: torch.randint(0, v, (n,))
    cos, sin = torch.randn(1, 16, 32), torch.randn(1, 16, 32)
    return {
        "rms_norm": lambda: both(lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False), t(rows, width), t(width)),
        "rms_norm_bf16_gemma": lambda: both(lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 1.0, "gemma", False), t(rows, width, dtype=bf), t(width, dtype=bf)),
        "layer_norm": lambda: both(lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, 1e-5), t(rows, width), t(width), t(width)),
        "layer_norm_bf16": lambda: both(lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, 1e-5), t(rows, 384, dtype=bf), t(384, dtype=bf), t(384, dtype=bf)),
        "group_norm": lambda: both(lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, 8, 2, 1e-5), t(2, 8, 64), t(8), t(8)),
        "fused_add_rms_norm": lambda: both(lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, 0.0, "llama", False), t(rows, width), t(rows, width), t(width)),
        "modulated_rms_norm": lambda: both(lambda x, w, s, h: ops.LigerModulatedRMSNormFunction.apply(x, w, s, h, 1e-6, 0.0, "llama", False), t(2, 4, width), t(width), t(2, 1, width), t(2, 1, width)),
        "poly_norm": lambda: both(lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b, 1e-6, False), t(rows, width), t(3), t(1)),
        "dyt": lambda: both(lambda x, a, g, b: ops.LigerDyTFunction.apply(x, a, g, b), t(rows, width), t(1), t(width), t(width)),
        "geglu": lambda: both(ops.LigerGELUMulFunction.apply, t(rows, width), t(rows, width)),
        "swiglu": lambda: both(ops.LigerSiLUMulFunction.apply, t(rows, width, dtype=bf), t(rows, width, dtype=bf)),
        "relu_squared": lambda: both(ops.LigerReLUSquaredFunction.apply, t(rows, width)),
        "softmax": lambda: both(ops.LigerSoftmaxFunction.apply, t(rows, width)),
        "sparsemax": lambda: both(lambda x: ops.LigerSparsemaxFunction.apply(x, -1), t(rows, 256)),
        "cross_entropy": lambda: both(lambda x: ops.LigerCrossEntropyFunction.apply(x, labels(rows, 1000), None, -100, 0.0, 0.1, "mean", None, False), t(rows, 1000)),
        "kl_div": lambda: both(lambda x: ops.LigerKLDivLossFunction.apply(x, torch.softmax(torch.randn(rows, 300), -1), "batchmean", False, 1e-10), t(rows, 300)),
        "jsd": lambda: both(lambda x: ops.LigerJSDFunction.apply(x, torch.log_softmax(torch.randn(rows, 300), -1), None, 0.5, -100), t(rows, 300)),
        "tvd": lambda: both(lambda x: ops.LigerTVDLossFunction.apply(x, torch.softmax(torch.randn(rows, 300), -1), None, "batchmean", -100), t(rows, 300)),
        "rope": lambda: both(lambda q, k: ops.LigerRopeFunction.apply(q, k, cos, sin), t(2, 4, 16, 32), t(2, 2, 16, 32)),
        "embedding": lambda: both(lambda e: ops.LigerEmbeddingFunction.apply(e, labels(16, 50)), t(50, 96)),
        "multi_token_attention": lambda: both(lambda s, w: ops.LigerMultiTokenAttentionFunction.apply(s, w, None, 1, 1, 1, 1, False), t(1, 2, 32, 32), t(2, 2, 3, 3)),
        "neighborhood_attention": lambda: both(lambda q, k, v: ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 5, 1, None), t(1, 2, 64, 32), t(1, 2, 64, 32), t(1, 2, 64, 32)),
        "attn_res": lambda: both(lambda v, w, n: ops.LigerAttnResFunction.apply(v, w, n, 1e-6), t(4, 2, 8, 128), t(128), t(128)),
        "fused_moe": lambda: both(lambda x, g, d: ops.LigerFusedMoEFunction.apply(x, g, d, torch.randint(0, 4, (32, 2)), torch.rand(32, 2)), t(32, 64, dtype=bf), t(4, 128, 64, dtype=bf), t(4, 64, 64, dtype=bf)),
        "mhc_post": lambda: both(ops.LigerMHCPreFunction.apply, t(2, 8, 4, 64), t(2, 8, 4)),
        "llama4_rope": lambda: both(lambda q, k: ops.LigerLlama4RopeFunction.apply(q, k, torch.polar(torch.ones(16, 16), torch.randn(16, 16))), t(1, 16, 4, 32), t(1, 16, 2, 32)),
        "qwen2vl_mrope": lambda: both(lambda q, k: ops.LigerQwen2VLMRopeFunction.apply(q, k, torch.randn(3, 1, 16, 32), torch.randn(3, 1, 16, 32), [4, 6, 6]), t(1, 4, 16, 32), t(1, 2, 16, 32)),
    }
