"""attorch's layers, forward and backward, on small tensors."""
import torch

SOURCE = "BobMcDear/attorch"


def run(layer, *shape, dtype=torch.float32, inputs=None):
    given = inputs or [torch.randn(*shape).to(dtype).requires_grad_()]
    out = layer(*given)
    if out.requires_grad:
        out.backward(torch.randn_like(out))


def recipes():
    import attorch
    from attorch import math as _  # noqa: F401
    import torch.amp.autocast_mode as amp

    half = torch.float16
    acts = {
        name.lower(): (lambda name=name: run(getattr(attorch, name)(), 64, 96))
        for name in ("Sigmoid", "LogSigmoid", "Tanh", "ReLU", "GELU", "SiLU", "ReLU6", "Hardsigmoid", "Hardtanh", "Hardswish", "SELU", "Mish", "Softplus", "Softsign", "ELU", "CELU", "LeakyReLU", "Hardshrink", "Softshrink")
    }
    targets = torch.randint(0, 50, (16,))
    return {
        **acts,
        "gelu_dropout": lambda: run(attorch.GELU(drop_p=0.3), 64, 96),
        "batch_norm1d": lambda: run(attorch.BatchNorm1d(24, device="cpu"), 16, 24),
        "batch_norm2d_relu": lambda: run(attorch.BatchNorm2d(8, act_func="relu", device="cpu"), 4, 8, 6, 6),
        "conv2d": lambda: run(attorch.Conv2d(16, 32, 3, padding=1, device="cpu"), 2, 16, 8, 8),
        "conv2d_f16": lambda: run(attorch.Conv2d(16, 32, 3, stride=2, device="cpu").half(), 2, 16, 9, 9, dtype=half),
        "cross_entropy": lambda: run(lambda x: attorch.CrossEntropyLoss()(x, targets), 16, 50),
        "nll": lambda: run(lambda x: attorch.NLLLoss()(x, targets), 16, 50),
        "dropout": lambda: run(attorch.Dropout(0.25), 32, 96),
        "glu": lambda: run(attorch.GLU(), 16, 128),
        "layer_norm": lambda: run(attorch.LayerNorm(128, device="cpu"), 16, 128),
        "rms_norm": lambda: run(attorch.RMSNorm(128, device="cpu"), 16, 128),
        "linear": lambda: run(attorch.Linear(64, 96, device="cpu"), 48, 64),
        "linear_gelu_f16": lambda: run(attorch.Linear(64, 96, act_func="gelu", device="cpu").half(), 48, 64, dtype=half),
        "l1": lambda: run(lambda x: attorch.L1Loss()(x, torch.randn(32, 40)), 32, 40),
        "mse": lambda: run(lambda x: attorch.MSELoss()(x, torch.randn(32, 40)), 32, 40),
        "smooth_l1": lambda: run(lambda x: attorch.SmoothL1Loss()(x, torch.randn(32, 40)), 32, 40),
        "huber": lambda: run(lambda x: attorch.HuberLoss()(x, torch.randn(32, 40)), 32, 40),
        "softmax": lambda: run(attorch.Softmax(dim=-1), 16, 100),
        "log_softmax": lambda: run(attorch.LogSoftmax(dim=-1), 16, 100),
        "softmin": lambda: run(attorch.Softmin(dim=-1), 16, 100),
    }
