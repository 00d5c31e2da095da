"""What an operation takes, what tensors and arrays say of themselves, and whether they fit."""
import ctypes
import math
import sys

from ._expressions import LaunchError

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


class Operand:
    """What an operation takes or gives in one place: a matrix, a vector, one value, or what is packed."""

    def __init__(self, name, label, kind, dtype, rows=None, columns=None, layout="row", ld=None, out=False, reduced=False, share=None):
        # Of experts: whether each has one, one behind the other; None of a batch that is none.
        self.each = None
        self.name, self.label, self.kind, self.dtype = name, label, kind, dtype
        self.rows, self.columns, self.layout = rows, columns, layout
        # Of matrices of the epilogue, whose leading dimension no launch gives: a number, or None where it is packed.
        self.ld = ld
        self.out, self.reduced = out, reduced
        # Of what is packed, and has an order of its own: rows times n, divided by it, are its elements.
        self.share = share

    @property
    def memory(self):
        """Names of the extents as they lie in memory, the contiguous one last."""
        return (self.rows, self.columns) if self.layout == "row" else (self.columns, self.rows)


# Bits of elements of block-scaled types, which tensors have as bytes.
_SCALED_BITS = {"mxf8": 8, "mxf8e5m2": 8, "mxf4": 4, "nvf4": 4}
_EXTENTS = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n"), "d": ("m", "n")}

# Columns of both factors of a gated product, which B has unless each is a matrix.
_BOTH = "2n"
# k for each factor of a gated product by packed weights.
_FACTORS = "2k"
_OUTER = {"a": "strideA", "b": "strideB", "c": "strideC", "d": "strideD"}


# m rounded up to 128, and that of experts, each moved on by 127: what scales in bytes lie in.
_BLOCKS = ("M", "G")


def _scale_rows(problem):
    """Rows of the scales in bytes of a quantised D."""
    whole = (problem.get("symbolic") or {}).get("m", {}).get("multiple", 1) % 128 == 0
    batch = problem["batch"]
    return "G" if batch.get("rows") == "offsets" and batch.get("axis", "m") == "m" and not whole else "M"


def has_both(problem):
    """Whether B has the columns of both factors of a gated product."""
    return problem.get("gated", "matrices") != "matrices"


def operands_of(problem):
    """The operands of a problem: A, B, C, D, the factors of packed weights, of experts the int32 that tell their rows apart, then those of the epilogue by step."""
    found = _product_operands(problem)
    told = problem["batch"].get("rows")
    if told is None:
        return found
    axis = problem["batch"].get("axis", "m")
    named = {{"gather": "a", "scatter": "d"}[each["kind"]]: each["rows"] for each in problem["epilogue"] if each["kind"] in ("gather", "scatter")}
    for each in found:
        rows = "m" if each.rows in _BLOCKS else each.rows
        each.each = told == "counts" or axis not in (rows, each.columns)
        if each.name in named:
            each.rows, each.each = named[each.name], False
    groups = Operand("groups", told, "vector", "s32", "experts")
    groups.each = False
    last = len([each for each in found if not each.name.startswith("epilogue")])
    return found[:last] + [groups] + found[last:]


def _product_operands(problem):
    linear = problem["a"]["layout"] == "row" and problem["b"]["layout"] == "col"
    along = _FACTORS if has_both(problem) else "k"
    labels = dict(zip("ab", ("x", "weight"))) if linear else {}
    found = []
    for name, (rows, columns) in _EXTENTS.items():
        matrix = problem[name]
        if matrix is not None:
            label = labels.get(name, name)
            columns = _BOTH if name == "b" and has_both(problem) else columns
            if name == "b" and "weights" in problem:
                found.append(Operand(name, label, "packed", "u8", along, share=1 if matrix["dtype"] in ("s8", "e4m3") else 2))
                continue
            if matrix["dtype"] in _SCALED_BITS:
                found.append(Operand(name, label, "packed", "u8", "m", out=True, share=8 // _SCALED_BITS[matrix["dtype"]]))
                continue
            found.append(Operand(name, label, "matrix", matrix["dtype"], rows, columns, matrix["layout"], out=name == "d"))
    if "weights" in problem:
        share = problem["weights"]["group"] // (2 if problem["weights"]["zeros"] else 1)
        found.append(Operand("sfb", "sfb", "packed", problem["a"]["dtype"], along, share=share))
    taken = {each.label for each in found}
    for step, each in enumerate(problem["epilogue"]):
        kind = each["kind"]
        label = each.get("name", kind)
        label = label if label not in taken else label + str(step)
        taken.add(label)
        name = "epilogue%d" % step
        if kind == "quantize":
            dtype = each["operand"]["dtype"]
            found.append(Operand(name, label, "packed", dtype, _scale_rows(problem) if dtype == "u8" else "m", out=True, share=each["group"]))
        elif "operand" in each:
            matrix = each["operand"]
            ld = None if name_of_ld(step) in (problem.get("symbolic") or {}) else matrix["ld"]
            out = kind == "output"
            rows = "k" if kind == "factor" else "m"
            found.append(Operand(name, label, "matrix", matrix["dtype"], rows, "n", matrix["layout"], ld, out=out))
        elif kind == "bias" or (kind in ("scale", "load") and each["by"] in ("m", "n")):
            found.append(Operand(name, label, "vector", each["dtype"], each.get("along", each.get("by"))))
        elif kind in ("scale", "load") and each["by"] == "tensor":
            found.append(Operand(name, label, "value", each["dtype"]))
        elif kind in ("scale", "load"):
            found.append(Operand(name, label, "number", each["dtype"]))
        elif kind in ("gather", "scatter"):
            found.append(Operand(name, label, "vector", "s32", "m"))
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
        if name == "b" and has_both(problem):
            # Twice the columns of D, at fixed sizes: numbers, where no extent says them.
            ld = inner if inner == "k" and matrix["ld"] == problem["k"] else matrix["ld"]
            lines = 2 * problem["n"] if outer == "n" else problem[outer]
            values[name] = (ld, batch.get(_OUTER[name], matrix["ld"] * lines))
            continue
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


def check_kind(operation, operand, seen, device=None):
    """Raises LaunchError for a tensor of another dtype, or that is not on the GPU."""
    label, dtype = operand.label, "f32" if operand.dtype == "tf32" else operand.dtype
    if isinstance(seen.device, str):
        raise LaunchError("%s: %s is on %s, and the kernels run on a GPU" % (operation, label, seen.device))
    if None not in (seen.device, device) and seen.device != device:
        text = "%s: %s is on GPU %d, and the library was opened for GPU %d"
        raise LaunchError(text % (operation, label, seen.device, device))
    if seen.dtype is not None and seen.dtype != dtype:
        raise LaunchError("%s: %s is %s, and the kernels take %s" % (operation, label, seen.dtype, dtype))


def fit(operation, operand, seen, sizes, batch):
    """Leading dimension and distance between matrices of an operand, from its strides; None where its owner says nothing or nothing
    follows. Raises LaunchError with what does not fit: dtype, shape, strides. sizes: values of m, n and k."""
    check_kind(operation, operand, seen)
    label = operand.label
    if seen.shape is None:
        return None, None
    shape, strides = seen.shape, seen.strides
    if operand.kind == "packed":
        moved = 127 * batch if operand.rows == "G" else 0
        sizes = {**sizes, _FACTORS: 2 * sizes["k"]}
        rows = -(-(sizes["m"] + moved) // 128) * 128 if operand.rows in _BLOCKS else sizes[operand.rows]
        count = rows * sizes["n"] // operand.share * (batch if operand.each else 1)
        if math.prod(shape) != count or strides != _packed(shape):
            text = "%s: %s has shape %s and strides %s, and the kernels take %d elements, one behind the other"
            raise LaunchError(text % (operation, label, _dims(shape), _dims(strides), count))
        return None, None
    sizes = {**sizes, _BOTH: 2 * sizes["n"], "experts": batch}
    if operand.kind != "matrix":
        copies = batch if operand.reduced or operand.each else 1
        wanted = copies * (1 if operand.rows is None else sizes[operand.rows])
        count = math.prod(shape)
        if count != wanted or (operand.rows is not None and len(shape) != (1 if copies == 1 else 2)):
            name = "1 element" if operand.rows is None else "[%s] = [%d]" % (operand.rows, wanted)
            raise LaunchError("%s: %s has shape %s, and the kernels take %s" % (operation, label, _dims(shape), name))
        if count > 1 and strides != _packed(shape):
            raise LaunchError("%s: %s has strides %s, and the kernels take a contiguous vector" % (operation, label, _dims(strides)))
        return None, None
    names = operand.memory
    wanted = tuple(sizes.get(name, name) for name in names)
    between = None
    batch = 1 if operand.each is False else batch
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
    if operand.each and between is not None:
        if between != (ld or wanted[1]) * wanted[0]:
            raise LaunchError("%s: the matrices of %s do not follow each other" % (operation, label))
        between = None
    if operand.name.startswith("epilogue"):
        made = wanted[1] if operand.ld is None else operand.ld
        if ld is not None and ld != made:
            text = "%s: %s has strides %s, and its kernels were made for a leading dimension of %d"
            raise LaunchError(text % (operation, label, _dims(seen.strides), made))
        if between is not None and between != made * wanted[0]:
            raise LaunchError("%s: the matrices of %s do not follow each other" % (operation, label))
        return None, None
    return ld, between


def pack_weights(codes, scales, zeros=None):
    """Weights in the order that kernels read, the operands b and sfb: of codes [n, k], scales [n, k / group] in A's dtype, and zero points like them where there are any.
    Codes in uint8 are those of s4 or e2m1, from 0 to 15, and come out as fragments-16x64; int8 and float8_e4m3fn are themselves, fragments-16x32. Zero points are of the codes'
    dtype, and floats have none. Arrays of numpy, cupy or torch, and such ones come out."""
    n, k = codes.shape
    groups = scales.shape[1]
    if n % 16 or k % 64 or scales.shape[0] != n or groups == 0 or k % groups or (zeros is not None and zeros.shape != scales.shape):
        text = "%d x %d weights with scales %s are no whole blocks of 16 x 64 in groups"
        raise ValueError(text % (n, k, _dims(scales.shape)))
    of = str(codes.dtype).rpartition(".")[2]
    if of not in ("uint8", "int8", "float8_e4m3fn") or (zeros is not None and (of != str(zeros.dtype).rpartition(".")[2] or "8_" in of)):
        raise ValueError("codes are uint8, int8 or float8_e4m3fn, and zero points like the first two")
    if of == "uint8" and any((each > 15).any() for each in (codes, zeros) if each is not None):
        raise ValueError("codes in uint8, and their zero points, are at most 15")
    # Kernels would make infinity of them.
    if "bfloat16" in str(scales.dtype) and (abs(scales) >= 2**19).any():
        raise ValueError("scales in bfloat16 are below 2^19")
    library = sys.modules[type(scales).__module__.partition(".")[0]]
    raw = codes.view(library.uint8)
    if "8_" in of and ((raw & 127) == 127).any():
        raise ValueError("a code is a NaN, which kernels take for a number")
    # Half of a block's columns, column of it, k of the block, run of 16, half of it, lane, neighbour. Codes of 4 bits of both halves share a byte.
    halves = raw.reshape(n // 16, 2, 8, k // (64 if of == "uint8" else 32), -1, 2, 4, 2)
    paired, order = (halves[:, 0] + 16 * halves[:, 1], (0, 2, 1, 5, 3, 6, 4)) if of == "uint8" else (halves, (0, 3, 2, 6, 4, 5, 7, 1))
    turn = paired.permute if hasattr(paired, "permute") else paired.transpose
    factors = [scales.T]
    if zeros is not None:
        converted = zeros.to if hasattr(zeros, "to") else zeros.astype
        factors.append(converted(scales.dtype).T)
    return turn(*order).reshape(-1), library.concatenate(tuple(factors)).reshape(-1)
