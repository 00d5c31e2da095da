"""As much of torch as a wheel of kernels touches, without values: tensors have an address, a dtype, a device, a shape and strides."""
import contextlib
import ctypes
import os
import struct
import types

_next = [0x20000000]


class dtype:
    def __init__(self, name, size, floating):
        self.name, self.itemsize, self.is_floating_point = name, size, floating

    def __repr__(self):
        return "torch." + self.name


float16, bfloat16, float32, float64 = (dtype(n, s, True) for n, s in (("float16", 2), ("bfloat16", 2), ("float32", 4), ("float64", 8)))
int8, uint8, int32 = (dtype(n, s, False) for n, s in (("int8", 1), ("uint8", 1), ("int32", 4)))
float8_e4m3fn, float8_e5m2 = dtype("float8_e4m3fn", 1, True), dtype("float8_e5m2", 1, True)
_numbers = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "float8_e4m3fn", "float8_e5m2"]


class device:
    def __init__(self, type, index=None):
        self.type, self.index = type, index

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)


def _packed(shape):
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


class _Object:
    """Holds what stands for the at::Tensor of torch's own, where that has it: behind the object's head."""

    __slots__ = ("_held",)


class Tensor(_Object):
    def __init__(self, shape, dtype=float16, device=device("cuda", 0), strides=None, address=None, requires_grad=False):
        self.shape, self.dtype, self.device, self.requires_grad = tuple(shape), dtype, device, requires_grad
        self._strides = _packed(self.shape) if strides is None else tuple(strides)
        if address is None:
            address = _next[0]
            _next[0] += 1 << 20
        self._address = address
        self._kept = [(ctypes.c_int64 * len(each))(*each) for each in (self.shape, self._strides)]
        cuda, index = self.device.type == "cuda", self.device.index or 0
        facts = 7, int(cuda), index, _numbers.index(dtype.name), len(self.shape), *map(ctypes.addressof, self._kept), address
        self._held = struct.pack("8q", *facts)

    @property
    def _cdata(self):
        return id(self._held)

    def stride(self, dim=None):
        return self._strides if dim is None else self._strides[dim]

    def data_ptr(self):
        return self._address

    def get_device(self):
        return self.device.index if self.device.type == "cuda" else -1

    def dim(self):
        return len(self.shape)

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def _like(self, shape=None, strides=None, dtype=None):
        return Tensor(self.shape if shape is None else shape, dtype or self.dtype, self.device, strides, self._address)

    def to(self, wanted):
        return self._like(strides=self._strides, dtype=wanted)

    def t(self):
        return self._like(self.shape[::-1], self._strides[::-1])

    def transpose(self, one, two):
        order = list(range(len(self.shape)))
        order[one], order[two] = order[two], order[one]
        return self._like(tuple(self.shape[each] for each in order), tuple(self._strides[each] for each in order))

    def contiguous(self):
        return Tensor(self.shape, self.dtype, self.device) if self._strides != _packed(self.shape) else self

    def reshape(self, *shape):
        shape = shape[0] if isinstance(shape[0], tuple) else shape
        size = 1
        for extent in self.shape:
            size *= extent
        known = 1
        for extent in shape:
            known *= extent if extent != -1 else 1
        return self._like(tuple(size // known if extent == -1 else extent for extent in shape))

    def sum(self, dims=None):
        assert dims == 0
        return self._like(self.shape[1:])

    def float(self):
        return self.to(float32)

    def new_empty_strided(self, shape, strides, dtype):
        return Tensor(shape, dtype, self.device, strides)

    def __add__(self, other):
        return self._like()

    __mul__ = __radd__ = __rmul__ = __add__

    def __le__(self, other):
        state.calls.append("mask")
        return self

    __gt__ = __and__ = __le__
    __invert__ = __eq__ = __getitem__ = all = masked_fill = lambda self, *_, **__: self
    __hash__ = object.__hash__

    def repeat_interleave(self, count, axis):
        return Tensor(tuple(extent * (count if each == axis else 1) for each, extent in enumerate(self.shape)), self.dtype, self.device)

    def __dlpack__(self):
        return self


class Parameter(Tensor):
    pass


class _View(ctypes.Structure):
    """A tensor as DLPack has it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("device_type", "device_id", "rank")),
        *(("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("shape", "strides")),
        ("offset", ctypes.c_uint64),
    ]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_View))
def _view(tensor, out):
    state.views += 1
    rank, kind = len(tensor.shape), tensor.dtype
    code = 4 if kind is bfloat16 else 2 if kind.is_floating_point else 1 if kind is uint8 else 0
    place = (2, tensor.device.index) if tensor.device.type == "cuda" else (1, 0)
    arrays = [ctypes.cast(each, ctypes.POINTER(ctypes.c_int64)) for each in tensor._kept]
    out[0] = _View(tensor._address, *place, rank, code, 8 * kind.itemsize, 1, *arrays, 0)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def _stream(kind, device, out):
    out[0] = state.stream + device
    return 0


class _Exchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), *((name, ctypes.c_void_p) for name in ("previous", *"abc", "view", "stream"))]


_exchange = _Exchange(1, 3, None, 1, 1, 1, *(ctypes.cast(each, ctypes.c_void_p).value for each in (_view, _stream)))
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_name = b"dlpack_exchange_api"  # a capsule keeps the place of its name only
Tensor.__dlpack_c_exchange_api__ = _capsule(ctypes.addressof(_exchange), _name, None)


def set_device(index):
    """Make a GPU the current one, for the driver too: the first has the context that the driver gives."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(ctypes.c_void_p(context.value + index))
    state.device = index


nn = types.SimpleNamespace(Parameter=Parameter, functional=types.SimpleNamespace(gelu=lambda x, **_: x, silu=lambda x: x))
relu = sigmoid = tanh = lambda x: x


def softmax(x, axis):
    return x


def logsumexp(x, axis):
    state.calls.append("logsumexp")
    return Tensor(x.shape[:axis], x.dtype, x.device)


def arange(count, device):
    return Tensor((count,), int32, device)


def matmul(a, b):
    state.calls.append("matmul")
    return Tensor(a.shape[:-1] + b.shape[-1:], a.dtype, a.device)


def empty_strided(shape, strides, dtype, device):
    state.calls.append("empty")
    return Tensor(shape, dtype, globals()["device"]("cuda", state.device), strides)


def empty(size, dtype=float32, device=device("cpu")):
    if device.type == "cuda":
        state.calls.append("workspace")
    return Tensor((size,), dtype, device)


def from_dlpack(array):
    return array.__dlpack__()


_libraries = []
if "STUB_TORCH" in os.environ:
    __file__ = os.path.join(os.environ["STUB_TORCH"], "__init__.py")
    _libraries = [ctypes.CDLL(os.path.join(os.environ["STUB_TORCH"], "lib", name)) for name in ("libc10.so", "libtorch_cpu.so")]


class _State(types.SimpleNamespace):
    """What torch's libraries hold too, where they have symbols for it."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        for each in _libraries:
            each.stub_flags(self.vmap + 2 * self.autocast, self.grad)


state = _State(grad=True, autocast=False, vmap=False, compiling=False, device=0, stream=0x5000, calls=[], views=0, guards=0)
state.grad = True


@contextlib.contextmanager
def _with(name, value):
    before = getattr(state, name)
    setattr(state, name, value)
    try:
        yield
    finally:
        setattr(state, name, before)


def no_grad():
    return _with("grad", False)


def autocast(kind, enabled=True):
    assert kind == "cuda"
    return _with("autocast", enabled)


def is_grad_enabled():
    return state.grad


def is_autocast_enabled():
    return state.autocast


def _vmapping():
    state.guards += 1
    return state.vmap


_C = types.SimpleNamespace(
    _len_torch_dispatch_stack=lambda: 0,
    _len_torch_function_stack=lambda: 0,
    _are_functorch_transforms_active=_vmapping,
    _cuda_getDevice=lambda: state.device,
    _cuda_getCurrentRawStream=lambda device: state.stream + device,
)
compiler = types.SimpleNamespace(is_compiling=lambda: state.compiling)


@contextlib.contextmanager
def _current(index):
    before = state.device
    set_device(index)
    try:
        yield
    finally:
        set_device(before)


cuda = types.SimpleNamespace(device=_current)
Tag = types.SimpleNamespace(pt2_compliant_tag="pt2", needs_fixed_stride_order="strides")


class _Op:
    """An operator; it notes which of its kernels a call reaches."""

    def __init__(self, name, schema):
        self.name, self.schema, self.kernels, self.default = name, schema, {}, self

    def __call__(self, *tensors, **options):
        state.calls.append("op " + self.name)
        if state.vmap:
            return self.kernels["FuncTorchBatched"](*tensors, **options)
        if state.autocast:
            return self.kernels["AutocastCUDA"](*tensors, **options)
        made = self.kernels[{"cuda": "CUDA", "cpu": "CPU"}[tensors[0].device.type]](*tensors, **options)
        if state.grad and any(tensor.requires_grad for tensor in tensors):
            ctx = types.SimpleNamespace(needs_input_grad=[tensor.requires_grad for tensor in tensors])

            def save(*kept):
                ctx.saved_tensors = kept

            ctx.save_for_backward = save
            self.context(ctx=ctx, inputs=tensors, keyword_only_inputs=options, output=made)
            made.backward = lambda dy: self.gradient(ctx, dy)
        return made


class _Namespace:
    def __getattr__(self, name):
        made = _Namespace()
        setattr(self, name, made)
        return made


ops = _Namespace()
ops.aten = types.SimpleNamespace(gelu_backward=lambda dy, x, approximate: dy, silu_backward=lambda dy, x: dy)


def _op(qualified):
    space, name = qualified.split("::")
    return getattr(getattr(ops, space), name)


class _Library:
    def __init__(self, name, kind):
        assert kind == "FRAGMENT"
        self.name = name

    def define(self, schema, tags=()):
        name = schema[: schema.index("(")]
        setattr(getattr(ops, self.name), name, _Op(name, schema))

    def impl(self, name, function, key):
        _op("%s::%s" % (self.name, name)).kernels[key] = function


def _register_fake(qualified, function, lib):
    _op(qualified).fake = function


def _register_autograd(qualified, backward, *, setup_context, lib):
    _op(qualified).gradient, _op(qualified).context = backward, setup_context


library = types.SimpleNamespace(Library=_Library, register_fake=_register_fake, register_autograd=_register_autograd)
