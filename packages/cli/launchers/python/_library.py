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
import os

from ._attention import environment_of, serving, shapes_of, tensors_of
from ._expressions import LaunchError, NoKernel, _image_rule, explain, holds, runs
from ._operands import _EXTENTS, _OUTER, check_kind, defaults_of, fit, operands_of, view
from ._plans import Plan, _Driver

# Bytes of dynamic shared memory that a launch may take without opting in, and blocks of the largest cluster that needs no
# opting in (CUDA programming guide, technical specifications).
_PLAIN_SMEM = 48 * 1024
_PORTABLE_CLUSTER = 8
_MOST_KEPT = 1024  # launches kept ready


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
        """Its operands, as operands_of says them; of attention as tensors_of does."""
        if self.attention(operation) is not None:
            return tensors_of(self.manifest(self.dispatch[operation][0]))
        return operands_of(self.problem(operation))

    def attention(self, operation):
        """What an attention operation computes, as its manifests say it; None of a product."""
        return self.manifest(self.dispatch[operation][0]).get("attention")

    @functools.lru_cache(maxsize=None)
    def kernels(self, operation):
        """Of attention: artefact, which GPUs run it, and its tensors by operand, of each kernel, the best first."""
        rows = self.index["artefacts"]
        return [(each, rows[each]["device"], shapes_of(self.manifest(each))) for each in self.dispatch[operation]]

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
    """The operations of a library on one GPU, each a method: OPERATION(m, n, k, a, b, [c,] d, [sfb,] [groups,] *, epilogue={step: operand or number},
    stream=None, **more); more: alpha, beta, batch, lda..ldd, strideA..strideD (elements), workspace, workspace_bytes.

    Attention: OPERATION(q, k, v, [bias, slopes,] out, [lse,] *, stream=None, workspace=None, workspace_bytes=0); tensors are [batch, heads, rows, columns].

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
        call = self._call if self.catalogue.attention(name) is None else self._attend
        method = functools.partial(call, name)
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
            check_kind(operation, operand, seen, self.device)
            ld, between = fit(operation, operand, seen, extents, batch)
            if ld is not None:
                numbers.setdefault("ld" + name, ld)
            if between is not None:
                numbers.setdefault(_OUTER[name], between)
        env = self.catalogue.environment(operation, sizes, numbers, self.num_sms)
        artefact = self.pick(operation, env)
        return self._plan(operation, artefact, env, views, operands.values())

    def plan_attention(self, operation, views):
        """The same of attention, whose kernel the shapes and strides of the views decide."""
        operands = self.catalogue.operands(operation)
        for operand in operands:
            check_kind(operation, operand, views[operand.name], self.device)
        artefact = serving(operation, self.catalogue.kernels(operation), views, self.capability)
        env = environment_of(self.catalogue.manifest(artefact), self.num_sms)
        return self._plan(operation, artefact, env, views, operands)

    def _plan(self, operation, artefact, env, views, operands):
        labels = {operand.name: operand.label for operand in operands}
        names = [*views, "workspace"]
        return Plan(self._cuda, self.catalogue.manifest(artefact), self._load(artefact), env, operation, names, labels)

    def _call(self, operation, m, n, k, *matrices, epilogue=None, stream=None, **more):
        names = [each.name for each in self.catalogue.operands(operation) if not each.name.startswith("epilogue")]
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
        key = ((m, n, k), _key(numbers.items()), _key(more.items()))
        self._queue(operation, views, key, lambda: self.plan(operation, (m, n, k), views, {**more, **numbers}), stream, workspace, room)

    def _attend(self, operation, *tensors, stream=None, workspace=None, workspace_bytes=0):
        """Attention: Q, K, V, what is added to scores, O; tensors, or addresses of what a kernel was made for."""
        operands = self.catalogue.operands(operation)
        if len(tensors) != len(operands):
            raise TypeError("%s() takes %s" % (operation, ", ".join(each.label for each in operands)))
        views = {operand.name: view(tensor) for operand, tensor in zip(operands, tensors)}
        self._queue(operation, views, (), lambda: self.plan_attention(operation, views), stream, view(workspace).address, workspace_bytes)

    def _queue(self, operation, views, key, make, stream, workspace, room):
        """Launch by the plan that was kept for operands like these, or a new one."""
        if stream is None:
            owners = [each for each in views.values() if each.stream is not None]
            stream = owners[0].stream(self.device) if owners else 0
        else:
            stream = _stream_handle(stream)
        key = (operation, tuple((name, each.facts) for name, each in views.items()), *key)
        plan = self._kept.get(key)
        if plan is None:
            plan = make()
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
