"""Triton without a GPU: kernels are compiled for sm_90a and their launches become cases of the corpus.

`install(sink)` puts a driver in Triton's place; `kernel[grid](…)` with tensors of the CPU then calls sink(case, tensors).
"""
import re
import types

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from case import ELEMENTS, Case, parameters

SWIZZLES = {0: "none", 1: "32B", 2: "64B", 3: "128B"}
MAP_TYPES = {0: "u8", 1: "u16", 2: "u32", 3: "s32", 4: "u64", 5: "s64", 6: "f16", 7: "f32", 8: "f64", 9: "bf16"}


def bits_of(tensor):
    """A tensor's memory as a numpy array of its bits, and its element type."""
    kind = ELEMENTS[str(tensor.dtype).split(".")[-1]]
    flat = tensor.detach().contiguous().view(-1) if tensor.dim() else tensor.detach().reshape(1)
    raw = flat.cpu().view(torch.uint8).numpy()
    from case import STORED

    return raw.view(STORED[kind]), kind


class Buffers:
    """The storages that the arguments of one launch reach, each a buffer."""

    def __init__(self, case):
        self.case, self.names, self.tensors = case, {}, {}

    def place(self, tensor, label):
        """Name of the tensor's buffer, and its offset there in bytes."""
        offset = tensor.data_ptr()
        while not isinstance(tensor, torch.Tensor):
            # Wrappers: Triton's TensorWrapper (reinterpret), FlagGems' StridedBuffer.
            tensor = tensor.base if hasattr(tensor, "base") else tensor._base
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        if start not in self.names:
            name = re.sub(r"\W", "_", label)
            while name in self.tensors:
                name += "_"
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            count = storage.nbytes() // tensor.element_size()
            whole.set_(storage, 0, (count,))
            bits, kind = bits_of(whole)
            shaped = tensor.is_contiguous() and tensor.numel() == count and tensor.dim() > 0 and count > 0 and not tensor.dtype.is_complex
            self.case.buffer(name, bits.reshape(tuple(tensor.shape)) if shaped else bits, kind)
            self.names[start] = name
            self.tensors[name] = whole
        return self.names[start], offset - start


class Scratch:
    def __init__(self, size):
        self.size = size


def tensor_map(desc, meta, place):
    """The tensor map that Triton's launcher makes of a host descriptor (make_tensordesc_arg, fill_tma_descriptor)."""
    buffer, offset = place
    shape, strides, block = list(desc.shape), list(desc.strides), list(meta["block_size"])
    size = meta["elem_size"]
    names = {"e4m3": "u8", "e5m2": "u8", "s8": "u8"}
    kind = ELEMENTS[str(desc.base.dtype).split(".")[-1]]
    return {
        "buffer": buffer, "offset": offset, "dtype": names.get(kind, kind),
        "dims": [int(n) for n in reversed(shape)],
        "strides": [int(n) * size for n in reversed(strides[:-1])],
        "box": [int(n) for n in reversed(block)],
        "swizzle": SWIZZLES[meta["swizzle"]],
        "fill": "nan" if getattr(desc, "padding", "zero") == "nan" else "zero",
        "l2": "128B",
    }  # fmt: skip


class Launcher:
    """In place of CudaLauncher: hands each launch to the sink."""

    sink = None
    labels = {"library": "", "recipe": ""}

    def __init__(self, src, metadata):
        self.src, self.metadata = src, metadata
        self.names = list(src.fn.arg_names) if hasattr(src, "fn") else []

    def __call__(self, x, y, z, stream, function, packed, launch_metadata, enter, leave, *args):
        if x * y * z == 0:
            return
        case, tensors = make_case(self, (x, y, z), args, function.asm["ptx"])
        Launcher.sink(case, tensors)


def flatten(value):
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from flatten(one)
    else:
        yield value


def make_case(launcher, grid, args, ptx):
    """A case of a launch by Triton; tensors by buffer name, for what the kernel writes."""
    meta = launcher.metadata
    ctas = getattr(meta, "num_ctas", 1) or 1
    dims = tuple(getattr(meta, "cluster_dims", (1, 1, 1)) or (1, 1, 1))
    case = Case(
        f"{launcher.labels['library']}/{launcher.labels['recipe']}", ptx, meta.name, (grid[0] * ctas, grid[1], grid[2]), [int(warps_of(ptx, meta)), 1, 1], meta.shared,
        dims if ctas > 1 else None,
        {"compiler": f"triton {triton.__version__}", "kernel": meta.name, "launches": "pdl" if getattr(meta, "launch_pdl", False) else "plain", "cooperative": bool(getattr(meta, "launch_cooperative_grid", False))},
    )
    declared = parameters(ptx, meta.name)
    buffers = Buffers(case)
    values = []
    descs = list(getattr(meta, "tensordesc_meta", None) or [])
    signature = list(flatten(tuple(launcher.src.signature.values())))
    flat = list(flatten(args))
    names = launcher.names if len(launcher.names) == len(flat) else [f"arg{k}" for k in range(len(flat))]
    for kind, value, label in zip(signature, flat, names):
        if kind == "constexpr":
            continue
        if isinstance(kind, str) and kind.startswith("tensordesc"):
            found = descs.pop(0) if descs else None
            place = buffers.place(value.base, label)
            if found is None:
                values += [place, *value.shape, *value.strides, int(value.padding == "nan"), *value.shape, *value.strides]
            else:
                case.launch["tensorMaps"][label] = tensor_map(value, found, place)
                values += [{"tensorMap": label}, *value.shape, *value.strides]
        elif isinstance(kind, str) and kind.startswith("*"):
            values.append(0 if value is None else buffers.place(value, label))
        else:
            values.append((kind, value))
    for size in (getattr(meta, "global_scratch_size", 0), getattr(meta, "profile_scratch_size", 0)):
        values.append(Scratch(size * grid[0] * grid[1] * grid[2] * ctas))
    values = values[: len(declared)] if len(values) >= len(declared) else values
    for k, (value, param) in enumerate(zip(values, declared)):
        case.launch["params"].append(param_of(case, k, value, param))
    return case, buffers.tensors


def warps_of(ptx, meta):
    """Threads of a block: with warp specialisation more than num_warps say."""
    found = re.search(r"\.reqntid\s+(\d+)", ptx) or re.search(r"\.maxntid\s+(\d+)", ptx)
    return int(found.group(1)) if found else meta.num_warps * 32


def param_of(case, k, value, param):
    if isinstance(value, dict):
        return value
    if isinstance(value, Scratch):
        if value.size == 0:
            return 0
        name = f"scratch{k}"
        case.buffer(name, np.zeros(value.size, dtype=np.uint8), "u8")
        return {"buffer": name}
    if isinstance(value, tuple) and isinstance(value[0], str) and isinstance(value[1], (int,)) and not isinstance(value[1], bool) and value[0] in case.launch["buffers"]:
        return {"buffer": value[0], "offset": value[1]} if value[1] else {"buffer": value[0]}
    kind, number = value if isinstance(value, tuple) else (None, value)
    if isinstance(number, torch.Tensor):
        number = number.item()
    if isinstance(kind, str) and kind in ("fp16", "bf16", "fp32", "f32", "fp64"):
        dtype = {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "f32": "f32", "fp64": "f64"}[kind]
        number = float(number)
        text = "nan" if number != number else "inf" if number == float("inf") else "-inf" if number == float("-inf") else number
        return {"value": text, "dtype": dtype} if not param["type"].startswith("f") or isinstance(text, str) else text
    number = int(number)
    return {"int": str(number)} if abs(number) >= 2**53 else number


class Utils:
    def load_binary(self, name, kernel, shared, device):
        return None, name, 0, 0, 1024

    def get_device_properties(self, device):
        return {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "warpSize": 32, "sm_clock_rate": 1980000, "mem_clock_rate": 2619000, "mem_bus_width": 5120}

    def set_printf_fifo_size(self, size):
        pass


class Driver:
    """What Triton asks a driver for, answered for an H100."""

    def __init__(self):
        self.utils, self.launcher_cls = Utils(), Launcher

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device=None):
        return 0

    def get_device_capability(self, device=0):
        return (9, 0)

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_device_interface(self):
        return torch.cuda

    def map_python_to_cpp_type(self, kind):
        return kind

    def get_benchmarker(self):
        return lambda call, quantiles=None, **_: [1.0] * 3 if quantiles else 1.0

    def get_empty_cache_for_benchmark(self):
        return torch.zeros(1)

    def clear_cache(self, cache):
        pass


def install(sink):
    """Put the driver in place, and zeros where libraries ask for uninitialised memory."""
    Launcher.sink = staticmethod(sink)
    driver.set_active(Driver())
    from triton.compiler.compiler import CompiledKernel

    init = CompiledKernel._init_handles

    def handles(self):
        init(self)
        self.function = self

    CompiledKernel._init_handles = handles
    for name in ("empty", "empty_like", "empty_strided"):
        made = getattr(torch, name)

        def zeroed(*args, made=made, **named):
            found = made(*args, **named)
            return found.zero_() if found.numel() and not found.is_meta else found

        setattr(torch, name, zeroed)
    torch.Tensor.new_empty = lambda self, *size, **named: self.new_zeros(*size, **named)
    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.current_device = lambda: 0
    cuda.device_count = lambda: 1
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_device_name = lambda *_: "NVIDIA H100 80GB HBM3"
    cuda.get_device_properties = lambda *_: types.SimpleNamespace(multi_processor_count=132, major=9, minor=0, total_memory=80 << 30, name="NVIDIA H100", warp_size=32, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, shared_memory_per_block_optin=232448, L2_cache_size=50 << 20)
    cuda.synchronize = lambda *_: None
    cuda.current_stream = lambda *_: types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)

    class Nothing:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    cuda.device = Nothing

    class Event(Nothing):
        def __init__(self, *_, **__):
            pass

        def record(self, *_):
            pass

        wait = synchronize = record

        def elapsed_time(self, _):
            return 1.0

    class Generator:
        """Of random numbers: seed and offset of Philox, as CUDA's generators keep them."""

        def get_state(self):
            return torch.tensor([1234, 8], dtype=torch.int64).view(torch.uint8)

        def set_state(self, _):
            pass

    cuda.Event = Event
    cuda.default_generators = [Generator()]
    if hasattr(torch, "accelerator"):
        torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
