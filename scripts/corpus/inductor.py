"""Launches of the kernels that torch.compile's Inductor makes of models with random weights: python inductor.py OUT MODEL (needs a GPU).

Triton's launcher is wrapped: before a launch the arguments are copied, and the case is written as triton_capture writes it.
replay.py then runs it on fresh copies. `python inductor.py --list` names the models.
"""
import hashlib
import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
MOST = 16
LIMIT = 3 << 20  # bytes of a launch's buffers

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def models():
    """Name to a function that gives (module or function, inputs, train)."""
    import torch
    from torch import nn

    def transformer(make):
        def built():
            import transformers

            return make(transformers)

        return built

    ids = lambda n=32, high=100: {"input_ids": torch.randint(0, high, (2, n), device="cuda")}
    small = dict(vocab_size=100, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2)

    class Block(nn.Module):
        """A block of a diffusion U-Net."""

        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.GroupNorm(4, 16), nn.GroupNorm(4, 16)
            self.c1, self.c2 = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
            self.t = nn.Linear(32, 16)

        def forward(self, x, t):
            h = self.c1(nn.functional.silu(self.n1(x))) + self.t(nn.functional.silu(t))[:, :, None, None]
            h = self.c2(nn.functional.dropout(nn.functional.silu(self.n2(h)), 0.1))
            return nn.functional.interpolate(x + h, scale_factor=2.0)

    class Moe(nn.Module):
        def __init__(self):
            super().__init__()
            self.router, self.up, self.down = nn.Linear(64, 4), nn.Parameter(torch.randn(4, 64, 96) * 0.1), nn.Parameter(torch.randn(4, 96, 64) * 0.1)

        def forward(self, x):
            score, which = torch.topk(torch.softmax(self.router(x), -1), 2)
            every = torch.einsum("neh,ehd->ned", nn.functional.gelu(torch.einsum("nd,edh->neh", x, self.up)), self.down)
            return (torch.gather(every, 1, which[..., None].expand(-1, -1, 64)) * score[..., None]).sum(1)

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(32, 48)

        def forward(self, x):
            h = torch.zeros(x.shape[0], 48, device=x.device)
            for k in range(3):
                h = self.cell(x[:, k], h)
            return h

    def operations(x, y, at):
        a = torch.cumsum(x, 1)
        b = torch.sort(x[:, :64], 1).values
        c = torch.topk(y, 5, 1).values
        d = torch.nn.functional.cross_entropy(x, at)
        e = x.index_add(0, at % 8, y)
        f = torch.histc(x.abs(), 16, 0, 3) if False else torch.logsumexp(y, 1)
        g = torch.nn.functional.embedding(at, x)
        h = (x * 17).round().clamp(-128, 127).to(torch.int8)
        i = torch.var_mean(y, 1)
        j = torch.flip(x, [1]).roll(3, 1)
        k = torch.where(x > 0, torch.erf(x), torch.special.i0(y))
        return a, b, c, d, e, f, g, h, i, j, k, torch.argmax(x, 1), x.double().sin().sum(1), torch.cumprod(y * 0.1 + 1, 1)

    def flex(q, k, v):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cuda")
        return flex_attention(q, k, v, block_mask=mask)

    def products(a, b, c):
        return torch.relu(a @ b + c), torch.bmm(a.view(2, 64, 128), b.expand(2, 128, 128)).sigmoid()

    r = lambda *n, dtype=torch.float32: torch.randn(*n, device="cuda", dtype=dtype)
    half, bf = torch.float16, torch.bfloat16
    return {
        "gpt2": (transformer(lambda t: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=100, n_embd=64, n_layer=1, n_head=2, n_positions=64))), ids, True),
        "bert": (transformer(lambda t: t.BertForMaskedLM(t.BertConfig(**small)).to(bf)), ids, False),
        "llama": (transformer(lambda t: t.LlamaForCausalLM(t.LlamaConfig(**small)).to(bf)), ids, True),
        "qwen2": (transformer(lambda t: t.Qwen2ForCausalLM(t.Qwen2Config(**small, num_key_value_heads=1)).to(half)), ids, False),
        "t5": (transformer(lambda t: t.T5EncoderModel(t.T5Config(vocab_size=100, d_model=64, d_kv=32, d_ff=128, num_layers=1, num_heads=2))), ids, True),
        "vit": (transformer(lambda t: t.ViTModel(t.ViTConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8))), lambda: {"pixel_values": r(2, 3, 32, 32)}, False),
        "convnext": (transformer(lambda t: t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2))), lambda: {"pixel_values": r(2, 3, 32, 32)}, True),
        "resnet": (lambda: __import__("torchvision").models.resnet18(num_classes=10), lambda: (r(2, 3, 32, 32),), True),
        "unet": (Block, lambda: (r(2, 16, 8, 8), r(2, 32)), True),
        "moe": (Moe, lambda: (r(24, 64),), True),
        "recurrent": (Recurrent, lambda: (r(4, 3, 32),), True),
        "mlpmixer": (lambda: nn.Sequential(nn.Linear(64, 128), nn.Mish(), nn.LayerNorm(128), nn.Dropout(0.2), nn.Linear(128, 32), nn.Softmax(-1)), lambda: (r(20, 64),), True),
        "operations": (lambda: operations, lambda: (r(16, 100), r(16, 100), torch.randint(0, 16, (16,), device="cuda")), None),
        "flex": (lambda: flex, lambda: (r(1, 2, 128, 64, dtype=half), r(1, 2, 128, 64, dtype=half), r(1, 2, 128, 64, dtype=half)), None),
        "products": (lambda: products, lambda: (r(128, 128, dtype=bf), r(128, 128, dtype=bf), r(128, dtype=bf)), None),
    }  # fmt: skip


def hook(out, model):
    """Wrap Triton's launcher; launches not seen before become cases."""
    import torch
    import triton
    from triton.backends.nvidia.driver import CudaLauncher
    from triton.compiler.compiler import CompiledKernel

    import triton_capture

    texts, seen = {}, set()
    made, called, handles = CudaLauncher.__init__, CudaLauncher.__call__, CompiledKernel._init_handles

    def init(self, src, metadata):
        made(self, src, metadata)
        self.src, self.metadata = src, metadata
        self.names = list(src.fn.arg_names) if hasattr(src, "fn") and hasattr(src.fn, "arg_names") else []
        self.labels = {"library": "inductor", "recipe": model}

    def init_handles(self):
        handles(self)
        texts[self.function] = self.asm["ptx"]

    def call(self, x, y, z, stream, function, *args):
        try:
            ptx = texts.get(function)
            key = (hashlib.sha256((ptx or "").encode()).hexdigest(), x, y, z)
            if ptx is not None and key not in seen and len(seen) < MOST:
                seen.add(key)
                torch.cuda.synchronize()
                case, _ = triton_capture.make_case(self, (x, y, z), args[4:], ptx)
                size = sum(bits.nbytes for bits in case.arrays.values())
                if size <= LIMIT:
                    case.name = f"inductor/{model}.{case.launch['entry'][:70]}{'' if len(seen) == 1 else f'.{len(seen)}'}"
                    case.about.update({"library": "inductor", "recipe": model, "torch": torch.__version__})
                    case.write(out)
                    print(f"  {case.name} {size}", flush=True)
                else:
                    print(f"  left out, {size} bytes: {case.launch['entry']}", flush=True)
        except Exception:
            print("  ! " + traceback.format_exc()[-600:], flush=True)
        return called(self, x, y, z, stream, function, *args)

    CudaLauncher.__init__, CudaLauncher.__call__, CompiledKernel._init_handles = init, call, init_handles
    print(f"torch {torch.__version__} triton {triton.__version__}")


def main():
    out, name = sys.argv[1:3]
    import torch
    import torch._inductor.config as config

    for path, value in (("use_static_cuda_launcher", False), ("use_static_triton_launcher", False), ("triton.autotune_pointwise", False), ("fx_graph_cache", False), ("triton.unique_kernel_names", True)):
        try:
            if path != "use_static_triton_launcher" or not hasattr(config, "use_static_cuda_launcher"):
                config.load_config  # noqa: B018 (the module has loaded)
                setattr_deep(config, path, value)
        except Exception as error:
            print(f"  config {path}: {error}")
    if name == "products":
        config.max_autotune_gemm, config.max_autotune_gemm_backends = True, "TRITON"
        config.max_autotune = True
    hook(out, name)
    torch.manual_seed(0)
    make, inputs, train = models()[name]
    module = make()
    given = inputs()
    if train is not None:
        module = module.cuda()
        module.train(bool(train))
    compiled = torch.compile(module)
    result = compiled(**given) if isinstance(given, dict) else compiled(*given)
    if train:
        tensors = [one for one in (result if isinstance(result, tuple) else [result] if isinstance(result, torch.Tensor) else result.values()) if isinstance(one, torch.Tensor) and one.requires_grad]
        torch.autograd.backward(tensors, [torch.randn_like(one) for one in tensors])
    torch.cuda.synchronize()
    print(f"{name} done")


def setattr_deep(config, path, value):
    *parents, last = path.split(".")
    for parent in parents:
        config = getattr(config, parent)
    setattr(config, last, value)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print(" ".join(("gpt2", "bert", "llama", "qwen2", "t5", "vit", "convnext", "resnet", "unet", "moe", "recurrent", "mlpmixer", "operations", "flex", "products")))
    else:
        main()
