"""FlagGems' operators on small tensors."""
import os

import torch

SOURCE = "FlagOpen/FlagGems"


def recipes():
    os.environ["GEMS_VENDOR"] = "nvidia"
    import flag_gems
    import flag_gems.ops as o

    x = lambda *n, dtype=torch.float32: torch.randn(*n).to(dtype)
    ints = lambda high, *n: torch.randint(0, high, n)
    half = torch.float16
    found = {
        "mm": lambda: o.mm(x(64, 96, dtype=half), x(96, 80, dtype=half)),
        "mm_f32": lambda: o.mm(x(48, 64), x(64, 48)),
        "bmm": lambda: o.bmm(x(2, 48, 64, dtype=torch.bfloat16), x(2, 64, 48, dtype=torch.bfloat16)),
        "addmm": lambda: o.addmm(x(64), x(48, 64, dtype=half).float(), x(64, 64)),
        "mv": lambda: o.mv(x(64, 96), x(96)),
        "dot": lambda: o.dot(x(5000), x(5000)),
        "vdot": lambda: o.vdot(x(500), x(500)),
        "softmax": lambda: o.softmax(x(16, 200), 1),
        "softmax_dim0": lambda: o.softmax(x(40, 24), 0),
        "log_softmax": lambda: o.log_softmax(x(16, 200), 1),
        "layer_norm": lambda: o.layer_norm(x(16, 200), (200,), x(200), x(200)),
        "group_norm": lambda: o.group_norm(x(2, 8, 6, 6), x(8), x(8), 2, 8, 36, 4, 1e-5),
        "batch_norm": lambda: o.batch_norm(x(8, 6, 10), x(6), x(6), torch.zeros(6), torch.ones(6), True),
        "sum": lambda: o.sum(x(5000)),
        "sum_dim": lambda: o.sum_dim(x(40, 60), [1]),
        "mean_dim": lambda: o.mean_dim(x(40, 60), [0]),
        "amax": lambda: o.amax(x(40, 60), 1),
        "argmax": lambda: o.argmax(x(40, 60), 1),
        "argmin": lambda: o.argmin(x(40, 60), 0),
        "max_dim": lambda: o.max_dim(x(40, 60), 1),
        "prod": lambda: o.prod(x(3000)),
        "all": lambda: o.all(x(3000) > -9),
        "any_dim": lambda: o.any_dim(x(40, 60) > 2, 1),
        "cumsum": lambda: o.cumsum(x(8, 3000), 1),
        "cumsum_int": lambda: o.cumsum(ints(9, 4, 700), 1),
        "cummax": lambda: o.cummax(x(4, 700), 1),
        "cummin": lambda: o.cummin(x(4, 700), 1),
        "sort": lambda: o.sort(x(4, 700), 1),
        "sort_i32": lambda: o.sort(ints(10**6, 3, 500).int(), 1),
        "topk": lambda: o.topk(x(4, 700), 10),
        "unique": lambda: o._unique2(ints(50, 400), return_inverse=True),
        "nonzero": lambda: o.nonzero(x(20, 30) > 0),
        "masked_select": lambda: o.masked_select(x(20, 30), x(20, 30) > 0),
        "gather": lambda: o.gather(x(20, 30), 1, ints(30, 20, 12)),
        "scatter": lambda: o.scatter(x(20, 30), 1, torch.stack([torch.randperm(30)[:12] for _ in range(20)]), x(20, 12)),
        "index_select": lambda: o.index_select(x(20, 30), 0, ints(20, 7)),
        "index_add": lambda: o.index_add(x(20, 30), 0, torch.randperm(20)[:7], x(7, 30)),
        "index_put": lambda: o.index_put(x(20, 30), (torch.randperm(20)[:7],), x(7, 30)),
        "embedding": lambda: o.embedding(x(40, 64), ints(40, 12)),
        "where": lambda: o.where_self(x(20, 30) > 0, x(20, 30), x(20, 30)),
        "masked_fill": lambda: o.masked_fill(x(20, 30), x(20, 30) > 0, 2.5),
        "dropout": lambda: o.dropout(x(40, 60), 0.3, True),
        "rand": lambda: o.rand([500], device=torch.device("cpu")),
        "randn": lambda: o.randn([500], device=torch.device("cpu")),
        "arange": lambda: o.arange_start(3, 500, 2, device=torch.device("cpu")),
        "linspace": lambda: o.linspace(0, 7, 300, device=torch.device("cpu")),
        "eye": lambda: o.eye(20, device=torch.device("cpu")),
        "cat": lambda: o.cat([x(20, 30), x(20, 12)], 1),
        "stack": lambda: o.stack([x(20, 30), x(20, 30)], 1),
        "flip": lambda: o.flip(x(20, 30), [1]),
        "pad": lambda: o.pad(x(20, 30), [2, 3], "reflect"),
        "repeat": lambda: o.repeat(x(20, 30), [2, 3]),
        "tile": lambda: o.tile(x(20, 30), [2, 3]),
        "repeat_interleave": lambda: o.repeat_interleave_self_int(x(20, 30), 3, 1),
        "triu": lambda: o.triu(x(40, 40)),
        "diag": lambda: o.diag(x(40)),
        "trace": lambda: o.trace(x(40, 40)),
        "kron": lambda: o.kron(x(6, 7), x(4, 5)),
        "conv1d": lambda: o.conv1d(x(2, 8, 40), x(12, 8, 3), padding=1),
        "conv2d": lambda: o.conv2d(x(2, 16, 10, 10, dtype=half), x(32, 16, 3, 3, dtype=half), padding=1),
        "conv3d": lambda: o.conv3d(x(1, 4, 6, 6, 6), x(8, 4, 3, 3, 3)),
        "depthwise": lambda: o._conv_depthwise2d(x(2, 8, 10, 10), x(8, 1, 3, 3), (3, 3), None, (1, 1), (1, 1), (1, 1)),
        "max_pool2d": lambda: o.max_pool2d_with_indices(x(2, 4, 12, 12), (2, 2), (2, 2)),
        "avg_pool2d": lambda: o.avg_pool2d(x(2, 4, 12, 12), (2, 2), (2, 2)),
        "upsample_nearest": lambda: o.upsample_nearest2d(x(1, 3, 8, 8), (16, 16)),
        "upsample_bicubic": lambda: o._upsample_bicubic2d_aa(x(1, 3, 8, 8), (12, 12), False),
        "var_mean": lambda: o.var_mean(x(40, 60), [1]),
        "std": lambda: o.std(x(40, 60), [1]),
        "vector_norm": lambda: o.vector_norm(x(40, 60), 2, [1]),
        "weight_norm": lambda: o.weight_norm_interface(x(20, 30), x(20, 1)),
        "nll_loss": lambda: o.nll_loss_forward(x(16, 20), ints(20, 16)),
        "mse_loss": lambda: o.mse_loss(x(20, 30), x(20, 30)),
        "quantile": lambda: o.quantile(x(4, 100), 0.3, 1),
        "isin": lambda: o.isin(ints(50, 200), ints(50, 20)),
        "multinomial": lambda: o.multinomial(torch.rand(4, 50), 6, True),
        "uniform": lambda: o.uniform_(x(500), 0.0, 1.0),
        "exponential": lambda: o.exponential_(x(500)),
        "randperm": lambda: o.randperm(200, device=torch.device("cpu")),
        "polar": lambda: o.polar(torch.rand(200), torch.rand(200)),
        "attention": lambda: o.scaled_dot_product_attention(x(1, 2, 64, 64, dtype=half), x(1, 2, 64, 64, dtype=half), x(1, 2, 64, 64, dtype=half), is_causal=True),
        "flash_attention": lambda: o.flash_attention_forward(x(1, 64, 2, 64, dtype=half), x(1, 64, 2, 64, dtype=half), x(1, 64, 2, 64, dtype=half), None, None, 64, 64, 0.0, True, False),
    }  # fmt: skip
    for name in ("abs", "exp", "exp2", "erf", "cos", "sin", "tanh", "rsqrt", "sqrt", "log", "reciprocal", "sigmoid", "silu", "gelu", "elu", "isnan", "neg", "atan", "log_sigmoid", "celu", "softplus"):
        found[name] = lambda name=name: getattr(o, name)(torch.rand(700) + 0.1 if name in ("log", "sqrt", "rsqrt") else x(700))
    for name in ("add", "mul", "sub", "true_divide", "pow_tensor_tensor", "maximum", "minimum", "eq", "bitwise_xor_tensor" if hasattr(o, "bitwise_xor_tensor") else "ne", "trunc_divide", "floor_divide", "remainder", "polar"):
        found["two_" + name] = lambda name=name: getattr(o, name)(torch.rand(600) + 0.5, torch.rand(600) + 0.5)
    found["two_div_int"] = lambda: o.floor_divide(ints(900, 500) - 400, ints(50, 500) + 1)
    found["remainder_int"] = lambda: o.remainder(ints(900, 500) - 400, ints(50, 500) + 1)
    found["bitwise_and"] = lambda: o.bitwise_and_tensor(ints(900, 500), ints(900, 500))
    return found
