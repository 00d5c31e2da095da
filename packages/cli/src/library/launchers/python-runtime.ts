/** The part of a Python launcher that does not depend on its kernels. */
export const pythonRuntime = String.raw`import ctypes
import json
import os
import re
import sys

_PLAIN_SMEM = @PLAIN_SMEM@  # bytes that a launch takes without opting in
_PORTABLE_CLUSTER = @PORTABLE_CLUSTER@
_MOST_KEPT = 1024  # launches kept ready


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
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def evaluate(expr, env):
    """The value of a launch expression: a number, a name of env, or [operation, left, right]."""
    if isinstance(expr, str):
        return env[expr]
    if isinstance(expr, list):
        return _OPERATIONS[expr[0]](evaluate(expr[1], env), evaluate(expr[2], env))
    return expr


def holds(constraint, env):
    """Whether a constraint [comparison, left, right] holds."""
    return _COMPARISONS[constraint[0]](evaluate(constraint[1], env), evaluate(constraint[2], env))


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


def _address(operand):
    """Device address of an int, a torch tensor, a cupy array, or None."""
    if operand is None or isinstance(operand, int):
        return operand or 0
    if hasattr(operand, "data_ptr"):
        return operand.data_ptr()
    if hasattr(operand, "data") and hasattr(operand.data, "ptr"):
        return operand.data.ptr
    return operand.__cuda_array_interface__["data"][0]


def _stream_handle(stream):
    """Handle of a stream: an int, torch's .cuda_stream, cupy's .ptr; None is the default stream."""
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return getattr(stream, attribute)
    return int(stream) if stream is not None else 0


def _key(values, *but):
    """Values by name, numbers to the bit: 0.0 is not -0.0 here."""
    return tuple((name, value.hex() if isinstance(value, float) else value) for name, value in values if name not in but)


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
            self._library = ctypes.CDLL(name)
        except OSError as error:
            raise LaunchError("no NVIDIA driver: %s" % error) from None

    def __call__(self, name, *arguments):
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise LaunchError("the driver lacks %s" % name) from None
        status = function(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise LaunchError("%s: %s" % (name, (text.value or b"CUDA error").decode()), status)


_SCALARS = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "u32": ctypes.c_uint32,
    "s32": ctypes.c_int32,
    "u64": ctypes.c_uint64,
}
_OUTER = {"a": "strideA", "b": "strideB", "c": "strideC", "d": "strideD"}


class _Library:
    """Picks kernels by index.json and launches them by their manifests. For one thread at a time."""

    def __init__(self, device=0, folder=None):
        self._folder = folder or os.path.dirname(os.path.abspath(__file__))
        self._index = self._json("index.json")
        if self._index["schemaVersion"] != 1:
            raise LaunchError("version %s of the index is not known" % self._index["schemaVersion"])
        self._dispatch = {each["name"]: each["dispatch"] for each in self._index["operations"]}
        self._manifests = {}
        self._loaded = {}
        self._kept = {}
        self._cuda = _Driver()
        number, context = ctypes.c_int(), ctypes.c_void_p()
        self._cuda("cuInit", 0)
        self._cuda("cuDeviceGet", ctypes.byref(number), device)
        self._cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self._cuda("cuCtxSetCurrent", context)
        # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR, _MULTIPROCESSOR_COUNT
        self.capability = (self._attribute(75, number), self._attribute(76, number))
        self.num_sms = self._attribute(16, number)

    def _attribute(self, attribute, number):
        value = ctypes.c_int()
        self._cuda("cuDeviceGetAttribute", ctypes.byref(value), attribute, number)
        return value.value

    def _json(self, path):
        with open(os.path.join(self._folder, path), encoding="utf-8") as file:
            return json.load(file)

    def _manifest(self, artefact):
        if artefact not in self._manifests:
            manifest = self._json(self._index["artefacts"][artefact]["manifest"])
            if manifest["schemaVersion"] != 1:
                raise LaunchError("version %s of the manifest is not known" % manifest["schemaVersion"])
            self._manifests[artefact] = manifest
        return self._manifests[artefact]

    def environment(self, operation, sizes, epilogue, more):
        """Values of the names that expressions use."""
        env = dict(zip("mnk", sizes), numSms=self.num_sms)
        for name in _OUTER:
            env["ld" + name], env[_OUTER[name]] = 0, 0
        for name, value in getattr(self, "_DEFAULTS_" + operation).items():
            if isinstance(value, tuple):
                leading, outer = value
                env["ld" + name] = more.get("ld" + name, env.get(leading, leading))
                env[_OUTER[name]] = env["ld" + name] * env[outer] if isinstance(outer, str) else outer
            else:
                env[name] = value
        for name, value in more.items():
            if name not in env and name not in ("workspace", "workspace_bytes"):
                raise TypeError("%s() got an unexpected argument '%s'" % (operation, name))
            env[name] = value
        for step, value in epilogue.items():
            if isinstance(value, (int, float)):
                env["epilogue%d" % step] = value
        return env

    def pick(self, operation, env):
        """Number of the artefact to launch. Raises NoKernel."""
        for artefact in self._dispatch[operation]:
            row = self._index["artefacts"][artefact]
            if runs(row["device"], self.capability) and all(holds(each, env) for each in row["constraints"]):
                return artefact
        raise NoKernel(
            "%s has no kernel for m=%d n=%d k=%d batch=%d on compute capability %d.%d"
            % ((operation, env["m"], env["n"], env["k"], env["batch"]) + self.capability)
        )

    def _load(self, artefact):
        if artefact in self._loaded:
            return self._loaded[artefact]
        manifest = self._manifest(artefact)
        folder = os.path.dirname(self._index["artefacts"][artefact]["manifest"])
        images = [each for each in manifest["images"] if runs(_image_rule(each), self.capability)]
        images.sort(key=lambda each: (each["format"] == "cubin", each["arch"]), reverse=True)
        module, failure = ctypes.c_void_p(), NoKernel("no image of the kernel runs on this GPU")
        for image in images:
            with open(os.path.join(self._folder, folder, image["path"]), "rb") as file:
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
            functions.append(function)
        self._loaded[artefact] = functions
        return functions

    def _tensor_map(self, param, env, address):
        recipe = param["tensorMap"]
        rank = len(recipe["dims"])
        # The driver wants the map aligned to 64 bytes.
        raw = (ctypes.c_ubyte * (128 + 64))()
        start = -ctypes.addressof(raw) % 64
        dims = (ctypes.c_uint64 * rank)(*(evaluate(expr, env) for expr in recipe["dims"]))
        strides = (ctypes.c_uint64 * max(1, rank - 1))(*(evaluate(expr, env) for expr in recipe["strides"]))
        self._cuda(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(ctypes.addressof(raw) + start),
            _MAP_TYPES[recipe["dtype"]],
            ctypes.c_uint32(rank),
            ctypes.c_void_p(address),
            dims,
            strides,
            (ctypes.c_uint32 * rank)(*recipe["box"]),
            (ctypes.c_uint32 * rank)(*recipe["elementStrides"]),
            _MAP_INTERLEAVES[recipe["interleave"]],
            _MAP_SWIZZLES[recipe["swizzle"]],
            _MAP_PROMOTIONS[recipe["l2"]],
            int(recipe["oob"] == "nan"),
        )
        return (ctypes.c_ubyte * 128).from_buffer(raw, start)

    def _argument(self, param, env, pointers, workspace):
        if param["kind"] == "scalar":
            return _SCALARS[param["dtype"]](evaluate(param["value"], env))
        name = param["name"] if param["kind"] == "pointer" else param["tensorMap"]["operand"]
        if name == "workspace":
            return workspace
        address = pointers.get(name, 0)
        if address == 0:
            raise LaunchError("an operand is missing: %s" % name)
        if param["kind"] == "tensorMap":
            return self._tensor_map(param, env, address)
        if address % param["align"] != 0:
            raise LaunchError("%s is not aligned to %d bytes, as the kernel needs it" % (name, param["align"]))
        return ctypes.c_uint64(address)

    def _prepare(self, kernel, env, pointers, workspace):
        """Geometry and arguments of a kernel; what is wrong is found here, before anything is launched."""
        params = sorted(kernel["params"], key=lambda param: param["offset"])
        return resolve(kernel, env), [self._argument(param, env, pointers, workspace) for param in params]

    def _start(self, function, geometry, values, cooperative):
        """Function, configuration (its stream is set at each launch), addresses of the arguments, and what they point to."""
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
        return function, _Config(grid, block, dynamic_smem, None, attributes, count), addresses, values

    def _prepared(self, operation, sizes, pointers, epilogue, more):
        """All of a launch that depends neither on the stream nor on the workspace; kept, because callers come back with
        the same operands, and tensor maps are slow to encode."""
        numbers = [(step, value) for step, value in epilogue.items() if isinstance(value, (int, float))]
        settings = _key(more.items(), "workspace", "workspace_bytes")
        key = (operation, sizes, tuple(pointers.items()), _key(numbers), settings)
        prepared = self._kept.get(key)
        if prepared is None:
            env = self.environment(operation, sizes, epilogue, more)
            artefact = self.pick(operation, env)
            manifest = self._manifest(artefact)
            workspace = ctypes.c_uint64()
            kernels = [(each, self._prepare(each, env, pointers, workspace)) for each in manifest["kernels"]]
            starts = [
                self._start(function, geometry, values, kernel["launch"]["cooperative"])
                for (kernel, (geometry, values)), function in zip(kernels, self._load(artefact))
            ]
            prepared = (evaluate(manifest["workspace"]["bytes"], env), manifest["workspace"]["init"], workspace, starts)
            if len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = prepared
        return prepared

    def _launch(self, operation, sizes, operands, epilogue, stream, more):
        stream = ctypes.c_void_p(_stream_handle(stream))
        pointers = {name: _address(operand) for name, operand in operands.items()}
        for step, operand in epilogue.items():
            if not isinstance(operand, float):
                pointers["epilogue%d" % step] = _address(operand)
        size, zero, workspace, starts = self._prepared(operation, sizes, pointers, epilogue, more)
        workspace.value = _address(more.get("workspace"))
        own = size > 0 and workspace.value == 0
        if size > 0 and not own and more.get("workspace_bytes", 0) < size:
            raise LaunchError("the workspace has %d bytes and %d are needed" % (more.get("workspace_bytes", 0), size))
        if own:
            self._cuda("cuMemAllocAsync", ctypes.byref(workspace), ctypes.c_size_t(size), stream)
        try:
            if size > 0 and (zero == "zeroEach" or (zero == "zeroOnce" and own)):
                self._cuda("cuMemsetD8Async", workspace, ctypes.c_ubyte(0), ctypes.c_size_t(size), stream)
            for function, config, addresses, _ in starts:
                config.stream = stream
                self._cuda("cuLaunchKernelEx", ctypes.byref(config), function, addresses, None)
        finally:
            if own:
                self._cuda("cuMemFreeAsync", workspace, stream)
`;
