"""Launches by the driver alone: parameters and tensor maps that are kept, in which only addresses change."""
import ctypes
import sys

from ._expressions import LaunchError, evaluate, resolve

try:  # of a wheel; see there
    from . import _shim
except ImportError:
    _shim = None

# Numbers of CUtensorMapDataType and the other enumerators of cuda.h.
_MAP_TYPES = {"u8": 0, "s8": 0, "e4m3": 0, "e5m2": 0, "f16": 6, "bf16": 9, "f32": 7, "tf32": 11, "f64": 8, "s32": 3}
_MAP_INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
_MAP_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3, "128B_ATOM_32B": 4}
_MAP_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
_MAP_ALIGN = 16  # bytes, of the tensor's address (cuTensorMapEncodeTiled)


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
        maps = [(index, place, at) for index, place, _, _, at in self._maps]
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
        recipe = param["tensorMap"]
        self._maps.append((index, ctypes.addressof(cell), _encoder(recipe, env), what, recipe.get("at", 0)))
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
        for index, _, _, what, _ in self._maps:
            # A launch brings a workspace where the caller has none.
            if pointers[index] == 0 and self._names[index] != "workspace":
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
            for index, place, encode, _, at in self._maps:
                encode(self._driver, place, pointers[index] + at)
        else:
            for index, place, _, _, at in self._maps:
                if pointers[index] != known[index]:
                    self._driver.check("cuTensorMapReplaceAddress", replace(place, pointers[index] + at))
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
