"""The operations of a kernel library for torch: eager calls at the cost of a launch, and torch.library's operators beside them."""
import contextlib
import ctypes
import inspect
import operator
import os
import sys
import threading

import torch

from . import _shim
from ._expressions import LaunchError, NoKernel
from ._library import Library
from ._operands import View, view
from ._torch_attention import Attention
from ._torch_reference import _TORCH, Described

_MOST_KEPT = 1024  # launches kept ready, a thread

# What an eager call asks of each tensor. The functions below run in C; each call of Python would cost as much as all of them.
_facts = operator.attrgetter("dtype", "shape", "requires_grad")
_strides, _device_of, _pointer = torch.Tensor.stride, torch.Tensor.get_device, torch.Tensor.data_ptr
_plain = frozenset((torch.Tensor, torch.nn.Parameter)).issuperset
_grad_enabled, _autocast = torch.is_grad_enabled, torch.is_autocast_enabled
_dispatch_modes, _function_modes = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack


# A torch without CUDA has neither; what it computes is fallback.
_stream = getattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)
_device_now = getattr(torch._C, "_cuda_getDevice", lambda: -1)


def _transforms():
    return torch._C._functorch.peek_interpreter_stack() is not None


_transforms = getattr(torch._C, "_are_functorch_transforms_active", _transforms)


def _allocator():
    """What makes an output of shape, strides and dtype on the current GPU: torch's own short way for compiled code where it has that."""
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    short = getattr(guards, "_empty_strided_cuda", None)
    return short or (lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device="cuda"))


_empty = _allocator()

_guards = (_transforms, _dispatch_modes, _function_modes, _autocast)
_exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)


def _native():
    """shim.c; None without a compiler, and before torch 2.10, which tells C nothing of its tensors."""
    return _shim.module() if _exchange is not None else None


def _flags():
    """Where this torch keeps the flags of a thread: its library of them, whether modes of functions are active, whether gradients are recorded; zeros where
    it has no such symbols."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    try:
        core, aten = (ctypes.CDLL(os.path.join(folder, name), os.RTLD_LAZY | os.RTLD_NOLOAD) for name in ("libc10.so", "libtorch_cpu.so"))
        names = "_ZN2at4impl27torch_function_mode_enabledEv", "aoti_torch_grad_mode_is_enabled"
        return (core._handle, *(ctypes.cast(getattr(aten, name), ctypes.c_void_p).value for name in names))
    except (OSError, AttributeError):
        return 0, 0, 0


def _reader():
    """How shim.c reads tensors by torch's stable C functions (Reader): where the at::Tensor lies in a tensor's object, and the functions that take it; zeros in
    a torch that lacks one or keeps its tensors elsewhere."""
    names = "layout", "device_type", "device_index", "dtype", "dim", "sizes", "strides", "data_ptr"
    probe, place = torch.empty(0), object.__basicsize__
    try:
        if ctypes.c_void_p.from_address(id(probe) + place).value != probe._cdata:
            return (0,) * 11
        aten = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"), os.RTLD_LAZY | os.RTLD_NOLOAD)
        functions = [ctypes.cast(getattr(aten, "aoti_torch_get_" + name), ctypes.c_void_p).value for name in names]
        return (place, aten.aoti_torch_layout_strided(), aten.aoti_torch_device_type_cuda(), *functions)
    except (OSError, AttributeError):
        return (0,) * 11


def _table(operation, driver):
    """What launches known calls of an operation in C, in this thread; None of another DLPack."""
    current = ctypes.cast(driver.library.cuCtxGetCurrent, ctypes.c_void_p).value
    types = torch.Tensor, torch.nn.Parameter
    try:
        return _native().Table(operation, _exchange, current, types, _guards, _grad_enabled, _empty, _flags(), _reader())
    except ValueError:
        return None


class _Entry:
    """A launch kept ready for tensors of certain facts: its plan and the outputs to make."""

    __slots__ = ("plan", "run", "device", "grad", "simple", "outs")

    def __init__(self, plan, device, grad, outs):
        self.plan, self.run, self.device, self.grad, self.outs = plan, plan.run, device, grad, outs
        self.simple = len(outs) == 1 and plan.workspace == 0

    def launch(self, tensors):
        """The outputs. All memory is torch's, so that a CUDA graph that is being recorded owns it."""
        stream = _stream(self.device)
        made = []
        for shape, strides, dtype, reduced in self.outs:
            made.append(_empty(shape, strides, dtype))
            if reduced:
                made[-1].zero_()
        workspace = 0
        if self.plan.workspace > 0:
            room = torch.empty(self.plan.workspace, dtype=torch.uint8, device=torch.device("cuda", self.device))
            workspace = room.data_ptr()
            self.plan.clear(workspace, stream)
        self.run((*map(_pointer, tensors), *map(_pointer, made), workspace), stream)
        return made[0] if len(made) == 1 else tuple(made)


class _Operation:
    """One operation: its launches, its operator. What it computes is the other base class's."""

    def __init__(self, catalogue, name, libraries):
        super().__init__(catalogue, name)
        self.libraries = libraries
        self.local = threading.local()
        self.op = None

    # Launches.

    def key(self, tensors, numbers=()):
        """All that decides how a launch is made but the addresses."""
        return (tuple(map(_facts, tensors)), tuple(map(_strides, tensors)), tuple(map(_device_of, tensors)), *numbers)

    def library(self, device):
        """The library on a GPU; loaded once for all threads."""
        if device not in self.libraries:
            self.libraries[device] = Library(device, catalogue=self.catalogue)
        return self.libraries[device]

    def prepare(self, tensors, numbers):
        """A launch for these tensors. Raises LaunchError with what one of them breaks."""
        views = {operand.name: view(tensor) for operand, tensor in zip(self.inputs, tensors)}
        first = views[self.inputs[0].name]
        for operand in self.inputs:
            seen = views[operand.name]
            if isinstance(seen.device, str):
                raise LaunchError("%s: %s is on %s, and the kernels run on a GPU" % (self.name, operand.label, seen.device))
            if seen.device != first.device:
                text = "%s: %s is on GPU %d, and %s on GPU %d"
                raise LaunchError(text % (self.name, operand.label, seen.device, self.inputs[0].label, first.device))
        shapes, strides = [each.shape for each in views.values()], [each.strides for each in views.values()]
        outs = list(self.shapes_out(shapes, strides))
        for operand, (shape, stride, _, _) in zip(self.outs, outs):
            views[operand.name] = View(0, "f32" if operand.dtype == "tf32" else operand.dtype, first.device, shape, stride)
        with _lock:
            library = self.library(first.device)
            library.activate()
            plan = self.plan(library, views, shapes, strides, numbers)
        return _Entry(plan, first.device, any(tensor.requires_grad for tensor in tensors), outs)

    def direct(self, *tensors, fallback=False, **numbers):
        """The operator's kernel: launches, or computes with torch where no kernel serves and that was asked for."""
        numbers = {label: value for label, value in numbers.items() if value != (0.0 if label == "beta" else 1.0)}
        key = self.key(tensors, numbers.items())
        plans = self.local.__dict__.setdefault("plans", {})
        entry = plans.get(key)
        fresh = entry is None
        if fresh:
            if any(0 in tensor.shape for tensor in tensors):
                return self.reference(*tensors, **numbers)
            try:
                device = tensors[0].get_device()
                with torch.cuda.device(device) if device >= 0 else contextlib.nullcontext():
                    entry = self.prepare(tensors, numbers)
            except NoKernel:
                if fallback:
                    return self.reference(*tensors, **numbers)
                raise
            except LaunchError:
                if fallback and all(tensor.device.type == "cpu" for tensor in tensors):
                    return self.reference(*tensors, **numbers)
                raise
            if len(plans) >= _MOST_KEPT:
                self.forget()
            plans[key] = entry
        with contextlib.nullcontext() if _device_now() == entry.device else torch.cuda.device(entry.device):
            made = entry.launch(tensors)
            # Behind the launch, when its context is the current one.
            if fresh and not numbers:
                self.keep_in_c(tensors, entry)
        return made

    def forget(self):
        """Drop this thread's launches."""
        local = self.local.__dict__
        local["plans"].clear()
        if local.get("table") is not None:
            local["table"].clear()

    def keep_in_c(self, tensors, entry):
        """Have calls like this one answered by the shim from now on, in this thread."""
        if not entry.simple or entry.plan.native is None or _native() is None:
            return
        local = self.local.__dict__
        if "table" not in local:
            local["table"] = _table(self.called, entry.plan._driver)
        if local["table"] is not None:
            local["table"].add(tuple(tensors), entry.plan.native, entry.plan.run, entry.outs[0][:3])

    def slow(self, tensors, options):
        """A call that is not the plain one: keywords, arrays of others, gradients, modes; and the first of each kind."""
        tensors = list(tensors)
        for operand in self.inputs[len(tensors) :]:
            if operand.label in options:
                tensors.append(options.pop(operand.label))
        unknown = [name for name in options if name != "fallback" and name not in self.numbers]
        fixed = [name for name in unknown if name in ("alpha", "beta")]
        if fixed:
            text = '%s: %s is %s in its kernels; compile them with "%s": "runtime" to give it at launch'
            raise LaunchError(text % (self.name, fixed[0], self.problem[fixed[0]], fixed[0]))
        if unknown or len(tensors) != len(self.inputs):
            raise TypeError("%s%s was called with %d tensors%s" % (self.name, self.signature, len(tensors), "".join(", %s" % each for each in unknown)))
        space = None
        for index, tensor in enumerate(tensors):
            if isinstance(tensor, torch.Tensor):
                continue
            if not hasattr(tensor, "__dlpack__"):
                raise TypeError("%s: %s is of type %s, and no tensor" % (self.name, self.inputs[index].label, type(tensor).__name__))
            space = _space(tensor)
            tensors[index] = torch.from_dlpack(tensor)
        wants = _grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        plain = not (wants or _autocast() or _transforms() or _dispatch_modes() or _function_modes()) and _plain(map(type, tensors))
        made = (self.direct if plain else self.op)(*tensors, **options)
        if space is None:
            return made
        return space.from_dlpack(made) if len(self.outs) == 1 else tuple(map(space.from_dlpack, made))

    def function(self):
        """What users call."""
        local, slow, op = self.local, self.slow, self.op
        compiling, stream, device_now = torch.compiler.is_compiling, _stream, _device_now
        local.plans = {}

        def call(*tensors, **options):
            if compiling():
                return op(*tensors, **options)
            if not options and _plain(map(type, tensors)) and not (_transforms() or _dispatch_modes() or _function_modes() or _autocast()):
                key = (tuple(map(_facts, tensors)), tuple(map(_strides, tensors)), tuple(map(_device_of, tensors)))
                try:
                    entry = local.plans[key]
                except (KeyError, AttributeError):
                    return slow(tensors, options)
                if entry.simple and not (entry.grad and _grad_enabled()) and device_now() == entry.device:
                    shape, strides, dtype, _ = entry.outs[0]
                    made = _empty(shape, strides, dtype)
                    entry.run((*map(_pointer, tensors), made.data_ptr(), 0), stream(entry.device))
                    return made
            return slow(tensors, options)

        native = _native()
        if native is not None:
            native.traced_as(_traced)
            call = native.Operation(call)
            call.op = op
        self.called = call
        call.__module__ = self.catalogue.index["name"]
        call.__name__ = call.__qualname__ = self.name
        call.__doc__ = self.document
        position, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        call.__signature__ = inspect.Signature(
            [inspect.Parameter(each.label, position) for each in self.inputs]
            + [inspect.Parameter(label, keyword, default=0.0 if label == "beta" else 1.0) for label in self.numbers]
            + [inspect.Parameter("fallback", keyword, default=False)]
        )
        return call

    # The operator.

    def fake(self, *tensors, **_):
        """Outputs without values, for tracing."""
        made = [
            tensors[0].new_empty_strided(shape, strides, dtype=dtype)
            for shape, strides, dtype, _ in self.shapes_out([each.shape for each in tensors], [each.stride() for each in tensors])
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def autocast(self, *tensors, **options):
        """Tensors of other floating dtypes become those of the kernels, as torch.autocast has it."""
        cast = []
        for operand, tensor in zip(self.inputs, tensors):
            wanted = _TORCH[operand.dtype]
            cast.append(tensor.to(wanted) if tensor.is_floating_point() and wanted.is_floating_point else tensor)
        with torch.autocast("cuda", enabled=False):
            return self.op(*cast, **options)

    def setup_context(self, ctx, inputs, keyword_only_inputs, output):
        """What the backward pass needs."""
        ctx.save_for_backward(*inputs)
        ctx.options = dict(keyword_only_inputs)

    def refuse_vmap(self, *_, **__):
        """There is no batching rule."""
        text = "%s: vmap is refused: the kernels have no batch to map over; call it in a loop, or compile it with a strided batch"
        raise LaunchError(text % self.name)

    def register(self, library):
        """Define the operator."""
        tags = [each for each in (getattr(torch.Tag, name, None) for name in ("pt2_compliant_tag", "needs_fixed_stride_order")) if each]
        library.define(self.name + self.signature, tags=tuple(tags))
        for key, implementation in {
            "CUDA": self.direct,
            "CPU": self.direct,
            "AutocastCUDA": self.autocast,
            "FuncTorchBatched": self.refuse_vmap,
        }.items():
            library.impl(self.name, implementation, key)
        qualified = "%s::%s" % (self.catalogue.index["name"], self.name)
        torch.library.register_fake(qualified, self.fake, lib=library)
        torch.library.register_autograd(qualified, self.backward, setup_context=self.setup_context, lib=library)
        self.op = getattr(getattr(torch.ops, self.catalogue.index["name"]), self.name).default


class _Product(_Operation, Described):
    """A matrix product."""


class _Attention(_Operation, Attention):
    """Attention."""


def _traced(operation, *tensors, **options):
    """What torch.compile sees in a call."""
    return operation.op(*tensors, **options)


def _space(array):
    """The module that makes arrays of this kind from others; None where it has no from_dlpack."""
    module = sys.modules.get(type(array).__module__.split(".")[0])
    space = array.__array_namespace__() if hasattr(array, "__array_namespace__") else module
    return space if hasattr(space, "from_dlpack") else None


_lock = threading.RLock()
_library = None


def operations(catalogue):
    """The functions of a library by name; its operators are defined at the first call."""
    global _library
    with _lock:
        if _library is None:
            _library = torch.library.Library(catalogue.index["name"], "FRAGMENT")
            libraries = {}
            _library.functions = {}
            for name in catalogue.dispatch:
                kind = _Product if catalogue.attention(name) is None else _Attention
                each = kind(catalogue, name, libraries)
                if any(_TORCH.get(operand.dtype) is None for operand in each.inputs + each.outs):
                    continue
                each.register(_library)
                _library.functions[name] = each.function()
        return _library.functions
