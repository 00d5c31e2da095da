"""Launches the kernels of a library made by `tilewright compile --library`, by ctypes on the CUDA driver alone.

    import NAME                          # this file, beside index.json
    library = NAME.Library(device=0)     # its primary context, as torch and cupy have it
    library.OPERATION(m, n, k, a, b, d, epilogue={0: bias})

Operands are torch tensors, anything with __cuda_array_interface__ or __dlpack__ (cupy, jax, numba), or plain addresses. What an
operand knows of itself (dtype, GPU, shape, strides) is checked, and leading dimensions are taken from its strides. The stream is
the current one of torch or cupy where an operand is theirs, else the default stream; stream=... names another. Launches are
queued, not waited for. Python 3.8 or later. A Library serves one thread at a time.
"""
import ctypes
import functools
import json
import math
import os
import re
import sys

try:  # of a wheel; see there
    from . import _shim
except ImportError:
    _shim = None

# Bytes of dynamic shared memory that a launch may take without opting in, and blocks of the largest cluster that needs no
# opting in (CUDA programming guide, technical specifications).
_PLAIN_SMEM = 48 * 1024
_PORTABLE_CLUSTER = 8
_MOST_KEPT = 1024  # launches kept ready

# Numbers of CUtensorMapDataType and the other enumerators of cuda.h.
_MAP_TYPES = {"u8": 0, "s8": 0, "e4m3": 0, "e5m2": 0, "f16": 6, "bf16": 9, "f32": 7, "tf32": 11, "f64": 8, "s32": 3}
_MAP_INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
_MAP_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3, "128B_ATOM_32B": 4}
_MAP_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
_MAP_ALIGN = 16  # bytes, of the tensor's address (cuTensorMapEncodeTiled)

# By the names that torch, numpy and jax share; tf32 is f32 in memory.
_DTYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "s8",
    "uint8": "u8",
    "int32": "s32",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}
# DLPack's type codes with their bits.
_DLPACK_DTYPES = {
    (2, 16): "f16",
    (4, 16): "bf16",
    (2, 32): "f32",
    (2, 64): "f64",
    (0, 8): "s8",
    (1, 8): "u8",
    (0, 32): "s32",
    (10, 8): "e4m3",
    (12, 8): "e5m2",
}
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


class LaunchError(Exception):
    """A launch that cannot be made, or an error of the driver; status is its number or None."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class NoKernel(LaunchError):
    """No kernel of the library serves these arguments on this GPU."""


_OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x // y,
    "ceilDiv": lambda x, y: -(-x // y),
    "mod": lambda x, y: x % y,
    "min": min,
    "max": max,
}
_COMPARISONS = {
    "eq": ("==", lambda x, y: x == y),
    "ne": ("!=", lambda x, y: x != y),
    "lt": ("<", lambda x, y: x < y),
    "le": ("<=", lambda x, y: x <= y),
    "gt": (">", lambda x, y: x > y),
    "ge": (">=", lambda x, y: x >= y),
}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "//", "mod": "%"}


def evaluate(expr, env):
    """The value of a launch expression: a number, a name of env, or [operation, left, right]."""
    if isinstance(expr, str):
        return env[expr]
    if isinstance(expr, list):
        return _OPERATIONS[expr[0]](evaluate(expr[1], env), evaluate(expr[2], env))
    return expr


def holds(constraint, env):
    """Whether a constraint [comparison, left, right] holds."""
    return _COMPARISONS[constraint[0]][1](evaluate(constraint[1], env), evaluate(constraint[2], env))


def _text(expr):
    if not isinstance(expr, list):
        return str(expr)
    left, right = _text(expr[1]), _text(expr[2])
    return "%s %s %s" % (left, _INFIX[expr[0]], right) if expr[0] in _INFIX else "%s(%s, %s)" % (expr[0], left, right)


def _names(expr):
    if isinstance(expr, list):
        return _names(expr[1]) + _names(expr[2])
    return [expr] if isinstance(expr, str) else []


def explain(constraint, env):
    """A constraint that fails, with the values that it is about: `k % 8 == 0, and k is 77`."""
    comparison, left, right = constraint
    values = ["%s is %s" % (name, env[name]) for name in dict.fromkeys(_names(left) + _names(right))]
    return "%s %s %s, and %s" % (_text(left), _COMPARISONS[comparison][0], _text(right), ", ".join(values))


def runs(rule, capability):
    """Whether a GPU of this compute capability runs what is made for {"rule", "major", "minor"}."""
    made = (rule["major"], rule["minor"])
    if rule["rule"] == "portable":
        return capability >= made
    if rule["rule"] == "family":
        return capability[0] == made[0] and capability >= made
    return capability == made


def resolve(kernel, env):
    """Grid, block, cluster and bytes of dynamic shared memory of a kernel of a manifest."""
    launch = kernel["launch"]
    grid = tuple(evaluate(expr, env) for expr in launch["grid"])
    for extent, most in zip(grid, (2147483647, 65535, 65535)):
        if not 1 <= extent <= most:
            raise LaunchError("no GPU launches a grid of %d x %d x %d" % grid)
    return grid, tuple(launch["block"]), tuple(launch["cluster"]), launch["dynamicSmem"]


def _image_rule(image):
    major, minor, suffix = re.fullmatch(r"sm_(\d{1,2})(\d)([af]?)", image["arch"]).groups()
    plain = "family" if image["format"] == "cubin" else "portable"
    return {"rule": {"": plain, "a": "arch", "f": "family"}[suffix], "major": int(major), "minor": int(minor)}


class Operand:
    """What an operation takes or gives in one place: a matrix, a vector, or one value."""

    def __init__(self, name, label, kind, dtype, rows=None, columns=None, layout="row", ld=None, out=False, reduced=False):
        self.name, self.label, self.kind, self.dtype = name, label, kind, dtype
        self.rows, self.columns, self.layout = rows, columns, layout
        # Of matrices of the epilogue, whose leading dimension no launch gives: a number, or None where it is packed.
        self.ld = ld
        self.out, self.reduced = out, reduced

    @property
    def memory(self):
        """Names of the extents as they lie in memory, the contiguous one last."""
        return (self.rows, self.columns) if self.layout == "row" else (self.columns, self.rows)


_EXTENTS = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n"), "d": ("m", "n")}
_OUTER = {"a": "strideA", "b": "strideB", "c": "strideC", "d": "strideD"}


def operands_of(problem):
    """The operands of a problem: A, B, C, D, then those of the epilogue by step."""
    linear = problem["a"]["layout"] == "row" and problem["b"]["layout"] == "col"
    labels = dict(zip("ab", ("x", "weight"))) if linear else {}
    found = []
    for name, (rows, columns) in _EXTENTS.items():
        matrix = problem[name]
        if matrix is not None:
            label = labels.get(name, name)
            found.append(Operand(name, label, "matrix", matrix["dtype"], rows, columns, matrix["layout"], out=name == "d"))
    taken = {each.label for each in found}
    for step, each in enumerate(problem["epilogue"]):
        kind = each["kind"]
        label = kind if kind not in taken else kind + str(step)
        taken.add(label)
        name = "epilogue%d" % step
        if "operand" in each:
            matrix = each["operand"]
            ld = None if name_of_ld(step) in (problem.get("symbolic") or {}) else matrix["ld"]
            out = kind == "output"
            found.append(Operand(name, label, "matrix", matrix["dtype"], "m", "n", matrix["layout"], ld, out=out))
        elif kind == "bias" or (kind == "scale" and each["by"] in ("m", "n")):
            found.append(Operand(name, label, "vector", each["dtype"], each.get("along", each.get("by"))))
        elif kind == "scale" and each["by"] == "tensor":
            found.append(Operand(name, label, "value", each["dtype"]))
        elif kind == "scale":
            found.append(Operand(name, label, "number", each["dtype"]))
        elif kind == "reduce":
            rows = {"n": "m", "m": "n", "all": None}[each["over"]]
            shape = "vector" if rows else "value"
            found.append(Operand(name, label, shape, each["dtype"], rows, out=True, reduced=True))
    return found


def name_of_ld(step):
    """Name of the leading dimension of the matrix of a step of the epilogue."""
    return "ldepilogue%d" % step


def defaults_of(problem):
    """Values that arguments have unless told otherwise; a leading dimension may name the extent that it equals, and with it the
    distance between matrices of a batch: a number, or the extent that multiplies the leading dimension."""
    symbolic = problem.get("symbolic") or {}
    batch = problem["batch"]
    values = {
        "batch": batch.get("count", 1),
        "alpha": 1 if problem["alpha"] == "runtime" else problem["alpha"],
        "beta": 0 if problem["beta"] == "runtime" else problem["beta"],
    }
    for name, (rows, columns) in _EXTENTS.items():
        matrix = problem[name]
        if matrix is None:
            continue
        inner, outer = (columns, rows) if matrix["layout"] == "row" else (rows, columns)
        ld = inner if matrix["ld"] == problem[inner] or "ld" + name in symbolic else matrix["ld"]
        packed = matrix["ld"] * problem[outer]
        between = batch.get(_OUTER[name], packed)
        values[name] = (ld, outer if between == packed or _OUTER[name] in symbolic else between)
    return values


class View:
    """An operand as its owner describes it. What is not known is None. Strides are in elements. device: a GPU's number, or where else it is."""

    __slots__ = ("address", "dtype", "device", "shape", "strides", "stream", "keep")

    def __init__(self, address=0, dtype=None, device=None, shape=None, strides=None, stream=None, keep=None):
        self.address, self.dtype, self.device = address, dtype, device
        self.shape, self.strides, self.stream, self.keep = shape, strides, stream, keep

    @property
    def facts(self):
        """All but the address: what decides how a launch is made."""
        return self.dtype, self.device, self.shape, self.strides


def _dtype(value):
    name = str(getattr(value, "name", value)).rsplit(".", 1)[-1]
    return _DTYPES.get(name, name)


def _torch_stream(device):
    return sys.modules["torch"]._C._cuda_getCurrentRawStream(device)


def _cupy_stream(_):
    return sys.modules["cupy"].cuda.get_current_stream().ptr


def _packed(shape):
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


def _of_dlpack(operand):
    kind, number = operand.__dlpack_device__()
    if kind not in _DLPACK_CUDA:
        return View(device="cpu")
    capsule = operand.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.rank])
    strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else _packed(shape)
    dtype = _DLPACK_DTYPES.get((tensor.code, tensor.bits), "DLPack type %d of %d bits" % (tensor.code, tensor.bits))
    # The capsule keeps what it describes until the launch is queued.
    return View((tensor.data or 0) + tensor.offset, dtype, number, shape, strides, keep=capsule)


def view(operand):
    """The view of an operand: an address, None, a torch tensor, or an object with __cuda_array_interface__ or __dlpack__."""
    if operand is None or isinstance(operand, int):
        return View(operand or 0)
    if hasattr(operand, "data_ptr"):
        if not hasattr(operand, "stride"):
            return View(operand.data_ptr())
        device = operand.device
        if device.type != "cuda":
            return View(0, _dtype(operand.dtype), str(device), tuple(operand.shape), tuple(operand.stride()))
        return View(
            operand.data_ptr(), _dtype(operand.dtype), device.index, tuple(operand.shape), tuple(operand.stride()), _torch_stream
        )
    interface = getattr(operand, "__cuda_array_interface__", None)
    if interface is not None:
        shape = tuple(interface["shape"])
        size = int(interface["typestr"][2:])
        strides = interface.get("strides")
        strides = _packed(shape) if strides is None else tuple(stride // size for stride in strides)
        device = getattr(getattr(operand, "device", None), "id", None)
        stream = _cupy_stream if type(operand).__module__.split(".")[0] == "cupy" else None
        return View(interface["data"][0], _dtype(operand.dtype), device, shape, strides, stream)
    if hasattr(operand, "__dlpack_device__"):
        return _of_dlpack(operand)
    if hasattr(operand, "__array_interface__"):
        return View(device="cpu")
    raise TypeError("%s is no operand: a tensor, an array with __dlpack__, or an address" % type(operand).__name__)


def _flat(shape, strides):
    """Shape and strides as two dimensions: those before the last become one where memory allows it, else None."""
    if len(shape) == 1:
        return (1,) + shape, (shape[0],) + strides
    rows, step = 1, strides[-2]
    for extent, stride in zip(reversed(shape[:-1]), reversed(strides[:-1])):
        if extent != 1 and rows != 1 and stride != step * rows:
            return None
        step = stride if rows == 1 and extent != 1 else step
        rows *= extent
    return (rows, shape[-1]), (step, strides[-1])


def _dims(values):
    return "[%s]" % ", ".join(map(str, values))


def fit(operation, operand, seen, sizes, batch):
    """Leading dimension and distance between matrices of an operand, from its strides; None where its owner says nothing or nothing
    follows. Raises LaunchError with what does not fit: dtype, shape, strides. sizes: values of m, n and k."""
    label, dtype = operand.label, operand.dtype
    memory_dtype = "f32" if dtype == "tf32" else dtype
    if isinstance(seen.device, str):
        raise LaunchError("%s: %s is on %s, and the kernels run on a GPU" % (operation, label, seen.device))
    if seen.dtype is not None and seen.dtype != memory_dtype:
        raise LaunchError("%s: %s is %s, and the kernels take %s" % (operation, label, seen.dtype, memory_dtype))
    if seen.shape is None:
        return None, None
    shape, strides = seen.shape, seen.strides
    if operand.kind != "matrix":
        copies = batch if operand.reduced else 1
        wanted = copies * (1 if operand.rows is None else sizes[operand.rows])
        count = math.prod(shape)
        if count != wanted or (operand.rows is not None and len(shape) != (1 if copies == 1 else 2)):
            name = "1 element" if operand.rows is None else "[%s] = [%d]" % (operand.rows, wanted)
            raise LaunchError("%s: %s has shape %s, and the kernels take %s" % (operation, label, _dims(shape), name))
        if count > 1 and strides != _packed(shape):
            raise LaunchError("%s: %s has strides %s, and the kernels take a contiguous vector" % (operation, label, _dims(strides)))
        return None, None
    names = operand.memory
    wanted = tuple(sizes[name] for name in names)
    between = None
    if batch != 1 or (len(shape) == 3 and shape[0] == batch):
        if len(shape) != 3 or shape[0] != batch:
            text = "%s = %s" % (_dims(("batch",) + names), _dims((batch,) + wanted))
            raise LaunchError("%s: %s has shape %s, and the kernels take %s" % (operation, label, _dims(shape), text))
        between = strides[0] if batch > 1 else None
        shape, strides = shape[1:], strides[1:]
    elif operand.layout == "row" and len(shape) != 2 and len(shape) > 0:
        flat = _flat(shape, strides)
        if flat is None:
            text = "%s: %s has shape %s and strides %s, whose rows lie at no constant distance; make it contiguous"
            raise LaunchError(text % (operation, label, _dims(shape), _dims(strides)))
        shape, strides = flat
    # A matrix in columns comes as it lies in memory (a weight [n, k]), or as the view with rows first.
    reversed_view = operand.layout == "col" and shape == wanted[::-1] and strides[0] == 1
    if reversed_view and not (shape == wanted and strides[1] == 1):
        shape, strides = shape[::-1], strides[::-1]
    if shape != wanted:
        text = "%s = %s" % (_dims(names), _dims(wanted))
        raise LaunchError("%s: %s has shape %s, and the kernels take %s" % (operation, label, _dims(seen.shape), text))
    if wanted[1] > 1 and strides[1] != 1:
        text = "%s: %s has strides %s, and the kernels take %s contiguous (stride 1, not %d)"
        raise LaunchError(text % (operation, label, _dims(seen.strides), names[1], strides[1]))
    if wanted[0] > 1 and strides[0] < wanted[1]:
        text = "%s: %s has strides %s, so that its rows of %d overlap"
        raise LaunchError(text % (operation, label, _dims(seen.strides), wanted[1]))
    ld = strides[0] if wanted[0] > 1 else None
    if operand.name.startswith("epilogue"):
        made = wanted[1] if operand.ld is None else operand.ld
        if ld is not None and ld != made:
            text = "%s: %s has strides %s, and its kernels were made for a leading dimension of %d"
            raise LaunchError(text % (operation, label, _dims(seen.strides), made))
        if between is not None and between != made * wanted[0]:
            raise LaunchError("%s: the matrices of %s do not follow each other" % (operation, label))
        return None, None
    return ld, between


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_smem", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint32),
    ]


class _Driver:
    """The functions of libcuda that a launch needs; a status that is not 0 raises."""

    def __init__(self):
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            self.library = ctypes.CDLL(name)
        except OSError as error:
            raise LaunchError("no NVIDIA driver: %s" % error) from None
        # These are called with addresses as plain numbers, which is the cheapest that ctypes has.
        for function, count in (("cuLaunchKernelEx", 4), ("cuTensorMapReplaceAddress", 2)):
            if hasattr(self.library, function):
                getattr(self.library, function).argtypes = [ctypes.c_void_p] * count

    def check(self, name, status):
        if status != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(text))
            raise LaunchError("%s: %s" % (name, (text.value or b"CUDA error").decode()), status)

    def function(self, name):
        try:
            return getattr(self.library, name)
        except AttributeError:
            raise LaunchError("the driver lacks %s" % name) from None

    def __call__(self, name, *arguments):
        self.check(name, self.function(name)(*arguments))


_SCALARS = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "u32": ctypes.c_uint32,
    "s32": ctypes.c_int32,
    "u64": ctypes.c_uint64,
}


class Plan:
    """A launch with all that depends on neither addresses nor stream. run() writes only addresses that have changed into what is kept."""

    __slots__ = ("workspace", "zero", "_driver", "_names", "_cells", "_maps", "_starts", "_pointers", "_stream", "_launch", "native")

    def __init__(self, driver, manifest, functions, env, operation, names, labels):
        self._driver, self._names = driver, names
        self.workspace = evaluate(manifest["workspace"]["bytes"], env)
        self.zero = manifest["workspace"]["init"]
        self._cells, self._maps, self._starts = [], [], []
        self._pointers, self._stream = None, None
        self._launch = driver.function("cuLaunchKernelEx")
        for kernel, function in zip(manifest["kernels"], functions):
            geometry = resolve(kernel, env)
            params = sorted(kernel["params"], key=lambda param: param["offset"])
            values = [self._value(param, env, operation, labels) for param in params]
            self._starts.append(self._start(function, geometry, values, kernel["launch"]["cooperative"]))
        self.native = self._native()

    def _native(self):
        """The same in C, which writes where this plan does; None without it."""
        native, library = _shim and _shim.module(), self._driver.library
        if native is None or not hasattr(library, "cuTensorMapReplaceAddress"):
            return None
        launch, replace = (
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in ("cuLaunchKernelEx", "cuTensorMapReplaceAddress")
        )
        cells = [(index, ctypes.addressof(cell), align) for index, cell, align, _ in self._cells]
        maps = [(index, place) for index, place, _, _ in self._maps]
        starts = [(config, config + _Config.stream.offset, function, values) for config, function, values, _, _ in self._starts]
        return native.Launch(launch, replace, len(self._names), cells, maps, starts)

    def _value(self, param, env, operation, labels):
        if param["kind"] == "scalar":
            return _SCALARS[param["dtype"]](evaluate(param["value"], env))
        name = param["name"] if param["kind"] == "pointer" else param["tensorMap"]["operand"]
        if name not in self._names:
            raise LaunchError("%s: an operand is missing: %s" % (operation, labels.get(name, name)))
        index, what = self._names.index(name), "%s: %s" % (operation, labels.get(name, name))
        if param["kind"] == "pointer":
            cell = ctypes.c_uint64()
            # The workspace is the launcher's own or the caller's, in whole.
            self._cells.append((index, cell, param["align"] if name != "workspace" else 1, what))
            return cell
        # The driver wants the map aligned to 64 bytes.
        raw = (ctypes.c_ubyte * (128 + 64))()
        start = -ctypes.addressof(raw) % 64
        cell = (ctypes.c_ubyte * 128).from_buffer(raw, start)
        self._maps.append((index, ctypes.addressof(cell), _encoder(param["tensorMap"], env), what))
        return cell

    def _start(self, function, geometry, values, cooperative):
        grid, block, cluster, dynamic_smem = geometry
        addresses = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
        attributes = (_Attribute * 2)()
        count = 0
        if cluster != (1, 1, 1):
            attributes[count].id = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attributes[count].value[:3] = cluster
            count += 1
        if cooperative:
            attributes[count].id = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attributes[count].value[0] = 1
            count += 1
        config = _Config(grid, block, dynamic_smem, None, attributes, count)
        # The last item only keeps alive what the addresses point to.
        return ctypes.addressof(config), function.value, ctypes.addressof(addresses), config, (addresses, values)

    def check(self, pointers):
        """Raises LaunchError for an address that is missing or not aligned as the kernels need it."""
        for index, _, align, what in self._cells:
            address = pointers[index]
            if address == 0 and self._names[index] != "workspace":
                raise LaunchError("%s is missing" % what)
            if address % align != 0:
                raise LaunchError("%s is not aligned to %d bytes, as the kernel needs it: its address is %#x" % (what, align, address))
        for index, _, _, what in self._maps:
            if pointers[index] == 0:
                raise LaunchError("%s is missing" % what)
            if pointers[index] % _MAP_ALIGN != 0:
                text = "%s is not aligned to %d bytes, as bulk tensor copies need it: its address is %#x"
                raise LaunchError(text % (what, _MAP_ALIGN, pointers[index]))

    def _point(self, pointers):
        """Write the addresses that differ."""
        self.check(pointers)
        known, self._pointers = self._pointers, None
        for index, cell, _, _ in self._cells:
            cell.value = pointers[index]
        replace = getattr(self._driver.library, "cuTensorMapReplaceAddress", None)
        if known is None or replace is None:
            for index, place, encode, _ in self._maps:
                encode(self._driver, place, pointers[index])
        else:
            for index, place, _, _ in self._maps:
                if pointers[index] != known[index]:
                    self._driver.check("cuTensorMapReplaceAddress", replace(place, pointers[index]))
        self._pointers = pointers

    def run(self, pointers, stream):
        """Queue the launch on a stream (a handle). pointers: addresses, in the order of the names that the plan was made with."""
        if self.native is not None:
            status = self.native.run(pointers, stream)
            if status == 0:
                return
            if status > 0:
                self._driver.check("cuLaunchKernelEx", status)
            # What it has written since is not known here.
            self._pointers = self._stream = None
        if pointers != self._pointers:
            self._point(pointers)
            if self.native is not None:
                self.native.know(pointers)
        if stream != self._stream:
            for start in self._starts:
                start[3].stream = stream
            self._stream = stream
        for config, function, addresses, _, _ in self._starts:
            status = self._launch(config, function, addresses, None)
            if status != 0:
                self._driver.check("cuLaunchKernelEx", status)

    def clear(self, address, stream):
        """Zero the workspace, which every launch on fresh memory needs where the kernels count in it."""
        if self.zero != "none":
            self._driver(
                "cuMemsetD8Async",
                ctypes.c_uint64(address),
                ctypes.c_ubyte(0),
                ctypes.c_size_t(self.workspace),
                ctypes.c_void_p(stream),
            )


def _encoder(recipe, env):
    """What encodes a tensor map, for any address: the numbers of the recipe are evaluated once."""
    rank = len(recipe["dims"])
    dims = (ctypes.c_uint64 * rank)(*(evaluate(expr, env) for expr in recipe["dims"]))
    strides = (ctypes.c_uint64 * max(1, rank - 1))(*(evaluate(expr, env) for expr in recipe["strides"]))
    box = (ctypes.c_uint32 * rank)(*recipe["box"])
    steps = (ctypes.c_uint32 * rank)(*recipe["elementStrides"])
    tune = (
        _MAP_INTERLEAVES[recipe["interleave"]],
        _MAP_SWIZZLES[recipe["swizzle"]],
        _MAP_PROMOTIONS[recipe["l2"]],
        int(recipe["oob"] == "nan"),
    )

    def encode(driver, place, address):
        kind = _MAP_TYPES[recipe["dtype"]]
        base = ctypes.c_void_p(address)
        driver("cuTensorMapEncodeTiled", ctypes.c_void_p(place), kind, ctypes.c_uint32(rank), base, dims, strides, box, steps, *tune)

    return encode


def read_index(folder):
    """index.json of a folder."""
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        index = json.load(file)
    if index["schemaVersion"] != 1:
        raise LaunchError("version %s of the index is not known" % index["schemaVersion"])
    return index


def _stream_handle(stream):
    """Handle of a stream: an int, torch's .cuda_stream, cupy's .ptr."""
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return getattr(stream, attribute)
    return int(stream)


def _key(values, *but):
    """Values by name, numbers to the bit: 0.0 is not -0.0 here."""
    return tuple((name, value.hex() if isinstance(value, float) else value) for name, value in values if name not in but)


class Catalogue:
    """The files of a library: its index, its manifests, and what each operation takes. Needs no GPU."""

    def __init__(self, folder=None):
        self.folder = folder or os.path.dirname(os.path.abspath(__file__))
        self.index = read_index(self.folder)
        self.dispatch = {each["name"]: each["dispatch"] for each in self.index["operations"]}
        self._manifests = {}

    def manifest(self, artefact):
        """The manifest of an artefact of the index, by its number."""
        if artefact not in self._manifests:
            with open(os.path.join(self.folder, self.index["artefacts"][artefact]["manifest"]), encoding="utf-8") as file:
                manifest = json.load(file)
            if manifest["schemaVersion"] != 1:
                raise LaunchError("version %s of the manifest is not known" % manifest["schemaVersion"])
            self._manifests[artefact] = manifest
        return self._manifests[artefact]

    @functools.lru_cache(maxsize=None)
    def problem(self, operation):
        """The problem of an operation: dtypes, layouts and epilogue are those of all of its kernels."""
        return self.manifest(self.dispatch[operation][0])["request"]

    @functools.lru_cache(maxsize=None)
    def operands(self, operation):
        """Its operands, as operands_of says them."""
        return operands_of(self.problem(operation))

    @functools.lru_cache(maxsize=None)
    def defaults(self, operation):
        """What its arguments are unless told otherwise, as defaults_of says them."""
        return defaults_of(self.problem(operation))

    def environment(self, operation, sizes, numbers, num_sms):
        """Values of the names that launch expressions use. numbers: those that are not as usual, by name."""
        env = dict(zip("mnk", sizes), numSms=num_sms)
        for name in _OUTER:
            env["ld" + name], env[_OUTER[name]] = 0, 0
        for name, value in self.defaults(operation).items():
            if isinstance(value, tuple):
                leading, outer = value
                env["ld" + name] = numbers.get("ld" + name, env.get(leading, leading))
                env[_OUTER[name]] = env["ld" + name] * env[outer] if isinstance(outer, str) else outer
            else:
                env[name] = value
        for name, value in numbers.items():
            if name not in env and not name.startswith("epilogue"):
                raise TypeError("%s() got an unexpected argument '%s'" % (operation, name))
            env[name] = value
        return env


class Library:
    """The operations of a library on one GPU, each a method: OPERATION(m, n, k, a, b, [c,] d, *, epilogue={step: operand or number},
    stream=None, **more); more: alpha, beta, batch, lda..ldd, strideA..strideD (elements), workspace, workspace_bytes.

    Errors: LaunchError names the operand and the constraint that it breaks; NoKernel the kernels and theirs."""

    def __init__(self, device=0, folder=None, catalogue=None):
        self.catalogue = catalogue or Catalogue(folder)
        self.device = device
        self._loaded = {}
        self._kept = {}
        self._cuda = _Driver()
        number, context = ctypes.c_int(), ctypes.c_void_p()
        self._cuda("cuInit", 0)
        self._cuda("cuDeviceGet", ctypes.byref(number), device)
        self._cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self._context = context
        self.activate()
        # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR, _MULTIPROCESSOR_COUNT
        self.capability = (self._attribute(75, number), self._attribute(76, number))
        self.num_sms = self._attribute(16, number)

    def __getattr__(self, name):
        if name.startswith("_") or name == "catalogue" or name not in self.catalogue.dispatch:
            raise AttributeError("the library has no operation '%s'" % name)
        method = functools.partial(self._call, name)
        setattr(self, name, method)
        return method

    def activate(self):
        """Make the GPU's primary context the current one of this thread."""
        self._cuda("cuCtxSetCurrent", self._context)

    def _attribute(self, attribute, number):
        value = ctypes.c_int()
        self._cuda("cuDeviceGetAttribute", ctypes.byref(value), attribute, number)
        return value.value

    def pick(self, operation, env):
        """Number of the artefact to launch. Raises NoKernel, which names the constraints that fail, nearest kernel first."""
        near = []
        for artefact in self.catalogue.dispatch[operation]:
            row = self.catalogue.index["artefacts"][artefact]
            if not runs(row["device"], self.capability):
                continue
            failed = [explain(each, env) for each in row["constraints"] if not holds(each, env)]
            if not failed:
                return artefact
            near.append((len(failed), artefact, failed))
        near.sort()
        reasons = "; ".join("kernel %d wants %s" % (artefact, " and ".join(failed)) for _, artefact, failed in near[:3])
        if not near:
            archs = sorted({self.catalogue.index["artefacts"][each]["arch"] for each in self.catalogue.dispatch[operation]})
            reasons = "its kernels are for %s" % ", ".join(archs)
        elif len(near) > 3:
            reasons += "; %d more" % (len(near) - 3)
        raise NoKernel(
            "%s has no kernel for m=%d n=%d k=%d batch=%d on compute capability %d.%d: %s"
            % ((operation, env["m"], env["n"], env["k"], env["batch"]) + self.capability + (reasons,))
        )

    def _load(self, artefact):
        if artefact in self._loaded:
            return self._loaded[artefact]
        # A stream of this thread may be recording a graph, and loading is not part of it: CU_STREAM_CAPTURE_MODE_RELAXED.
        mode = ctypes.c_int(2)
        exchange = getattr(self._cuda.library, "cuThreadExchangeStreamCaptureMode", None)
        if exchange is not None:
            exchange(ctypes.byref(mode))
        try:
            self._loaded[artefact] = self._functions(artefact)
        finally:
            if exchange is not None:
                exchange(ctypes.byref(mode))
        return self._loaded[artefact]

    def _functions(self, artefact):
        manifest = self.catalogue.manifest(artefact)
        folder = os.path.dirname(self.catalogue.index["artefacts"][artefact]["manifest"])
        images = [each for each in manifest["images"] if runs(_image_rule(each), self.capability)]
        images.sort(key=lambda each: (each["format"] == "cubin", each["arch"]), reverse=True)
        module, failure = ctypes.c_void_p(), NoKernel("no image of the kernel runs on this GPU")
        for image in images:
            with open(os.path.join(self.catalogue.folder, folder, image["path"]), "rb") as file:
                data = file.read()
            try:
                self._cuda("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(data))
                break
            except LaunchError as error:  # a driver may be too old for a cubin and still take the PTX
                failure = error
        else:
            raise failure
        functions = []
        for kernel in manifest["kernels"]:
            function, launch = ctypes.c_void_p(), kernel["launch"]
            self._cuda("cuModuleGetFunction", ctypes.byref(function), module, kernel["entry"].encode())
            # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, _NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            if launch["dynamicSmem"] > _PLAIN_SMEM:
                self._cuda("cuFuncSetAttribute", function, 8, launch["dynamicSmem"])
            x, y, z = launch["cluster"]
            if x * y * z > _PORTABLE_CLUSTER:
                self._cuda("cuFuncSetAttribute", function, 14, 1)
            # Lazy loading would wait for the first launch, which a graph may record.
            if hasattr(self._cuda.library, "cuFuncLoad"):
                self._cuda("cuFuncLoad", function)
            functions.append(function)
        return functions

    def plan(self, operation, sizes, views, numbers):
        """A Plan whose pointers are those of views (operands by name), in their order, then the workspace. numbers: alpha, beta, batch,
        leading dimensions and the others by name, where they differ from the defaults; what views say of theirs goes before that."""
        extents = dict(zip("mnk", sizes))
        numbers = dict(numbers)
        batch = numbers.get("batch", self.catalogue.defaults(operation)["batch"])
        operands = {each.name: each for each in self.catalogue.operands(operation)}
        for name, seen in views.items():
            operand = operands.get(name)
            if operand is None:
                raise TypeError("%s() takes no operand '%s'" % (operation, name))
            if isinstance(seen.device, int) and seen.device != self.device:
                text = "%s: %s is on GPU %d, and the library was opened for GPU %d"
                raise LaunchError(text % (operation, operand.label, seen.device, self.device))
            ld, between = fit(operation, operand, seen, extents, batch)
            if ld is not None:
                numbers.setdefault("ld" + name, ld)
            if between is not None:
                numbers.setdefault(_OUTER[name], between)
        env = self.catalogue.environment(operation, sizes, numbers, self.num_sms)
        artefact = self.pick(operation, env)
        labels = {name: operand.label for name, operand in operands.items()}
        names = [*views, "workspace"]
        return Plan(self._cuda, self.catalogue.manifest(artefact), self._load(artefact), env, operation, names, labels)

    def _call(self, operation, m, n, k, *matrices, epilogue=None, stream=None, **more):
        names = [each.name for each in self.catalogue.operands(operation) if each.name in _EXTENTS]
        if len(matrices) > len(names):
            raise TypeError("%s() takes %s after m, n, k" % (operation, ", ".join(names)))
        given = dict(zip(names, matrices))
        given.update((name, more.pop(name)) for name in names if name in more)
        views = {name: view(operand) for name, operand in given.items()}
        kinds = {each.name: each.kind for each in self.catalogue.operands(operation)}
        numbers = {}
        for step, value in (epilogue or {}).items():
            name = "epilogue%d" % step
            if kinds.get(name) == "number":
                numbers[name] = value
            else:
                views[name] = view(value)
        workspace, room = view(more.pop("workspace", None)).address, more.pop("workspace_bytes", 0)
        if stream is None:
            owners = [each for each in views.values() if each.stream is not None]
            stream = owners[0].stream(self.device) if owners else 0
        else:
            stream = _stream_handle(stream)
        facts = tuple((name, each.facts) for name, each in views.items())
        key = (operation, (m, n, k), facts, _key(numbers.items()), _key(more.items()))
        plan = self._kept.get(key)
        if plan is None:
            plan = self.plan(operation, (m, n, k), views, {**more, **numbers})
            if len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = plan
        self._run(plan, tuple(each.address for each in views.values()), workspace, room, stream)

    def _run(self, plan, pointers, workspace, room, stream):
        """Launch with the caller's workspace, or with one that is allocated on the stream."""
        if plan.workspace == 0:
            return plan.run(pointers + (0,), stream)
        if workspace != 0:
            if room < plan.workspace:
                raise LaunchError("the workspace has %d bytes and %d are needed" % (room, plan.workspace))
            plan.check(pointers + (workspace,))
            if plan.zero == "zeroEach":
                plan.clear(workspace, stream)
            return plan.run(pointers + (workspace,), stream)
        plan.check(pointers + (0,))
        own, handle = ctypes.c_uint64(), ctypes.c_void_p(stream)
        self._cuda("cuMemAllocAsync", ctypes.byref(own), ctypes.c_size_t(plan.workspace), handle)
        try:
            plan.clear(own.value, stream)
            plan.run(pointers + (own.value,), stream)
        finally:
            self._cuda("cuMemFreeAsync", own, handle)
