"""Run launch files of `tilewright emulate` on a GPU: python replay.py CASES OUT [--seconds S] [--jobs N].

Every folder below CASES with kernel.ptx and launch.json is assembled by ptxas, launched twice on fresh copies of its buffers,
and what its buffers hold afterwards is written to OUT (results.jsonl, and arrays as NAME.npz where they have changed).
Assembled twice: as ptxas does by default, and without contraction of mul and add (--fmad=false).
Needs libcuda, ptxas and numpy alone. A worker that a kernel brings down is started again behind that kernel.
"""
import argparse
import ctypes
import hashlib
import json
import os
import queue
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np

from case import SIZES, STORED, parameters

FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}
MAP_TYPES = {"u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "f32.ftz": 10, "tf32": 11, "tf32.ftz": 12, "s8": 0, "e4m3": 0, "e5m2": 0}
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}


def number_bytes(value, kind):
    """Little-endian bytes of a scalar of an element type or of a type of a PTX parameter."""
    if isinstance(value, str):
        value = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}.get(value) if not re.match(r"-?\d|0x", value) else int(value, 0)
    if kind in FLOATS:
        return struct.pack(FLOATS[kind], float(value))
    if kind == "bf16":
        return struct.pack("<f", float(value))[2:]
    size = SIZES[re.sub(r"\D", "", kind)]
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


class Cuda:
    """The driver, as far as launches need it."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self("cuCtxSetCurrent", self.context)
        name = ctypes.create_string_buffer(100)
        self("cuDeviceGetName", name, 100, device)
        self.name = name.value.decode()

    def __call__(self, what, *args):
        code = getattr(self.lib, what)(*args)
        if code != 0:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{what}: {text.value.decode() if text.value else code}")

    def alloc(self, data):
        pointer = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(len(data), 256)))
        self("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))
        return pointer.value

    def read(self, pointer, size):
        data = ctypes.create_string_buffer(size)
        self("cuMemcpyDtoH_v2", data, ctypes.c_uint64(pointer), ctypes.c_size_t(size))
        return data.raw

    def free(self, pointer):
        self("cuMemFree_v2", ctypes.c_uint64(pointer))


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_byte * 64)]


class Config(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


def three(value):
    value = [value] if isinstance(value, int) else list(value)
    return (value + [1, 1, 1])[:3]


def load_buffer(folder, spec):
    """The bytes of a buffer before the launch."""
    fill = spec.get("fill", "none")
    if isinstance(fill, dict) and "file" in fill:
        return np.load(os.path.join(folder, fill["file"])).tobytes()
    size = spec.get("bytes") or int(np.prod(spec["shape"])) * np.dtype(STORED[spec["dtype"]]).itemsize
    if fill in ("none", "zeros"):
        return bytes(size)
    raise ValueError(f"fill {fill}")


def encode_map(cuda, spec, address):
    """The 128 bytes of a tensor map, by the driver."""
    rank = len(spec["dims"])
    raw = ctypes.create_string_buffer(256)
    start = (ctypes.addressof(raw) + 63) // 64 * 64
    u64, u32 = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    cuda(
        "cuTensorMapEncodeTiled", ctypes.c_void_p(start), MAP_TYPES[spec["dtype"]], ctypes.c_uint32(rank), ctypes.c_void_p(address + spec.get("offset", 0)),
        u64(*spec["dims"]), (ctypes.c_uint64 * max(rank - 1, 1))(*spec.get("strides", [])), u32(*spec["box"]), u32(*spec.get("elementStrides", [1] * rank)),
        INTERLEAVES[spec.get("interleave", "none")], SWIZZLES[spec.get("swizzle", "none")], PROMOTIONS[spec.get("l2", "none")], 1 if spec.get("fill") == "nan" else 0,
    )  # fmt: skip
    return ctypes.string_at(start, 128)


def field_bytes(field, addresses, maps):
    if "tensorMap" in field:
        return maps[field["tensorMap"]]
    if "buffer" in field:
        return (addresses[field["buffer"]] + field.get("offset", 0)).to_bytes(8, "little")
    if "bytes" in field:
        return bytes.fromhex(field["bytes"])
    return number_bytes(field["value"], field["dtype"])


def param_bytes(param, declared, addresses, maps):
    """What a parameter of the launch file passes."""
    if isinstance(param, (int, float)):
        return number_bytes(param, declared["type"])
    if "int" in param:
        return number_bytes(int(param["int"]), declared["type"])
    if "size" in param:
        data = bytearray(param["size"])
        for field in param["fields"]:
            part = field_bytes(field, addresses, maps)
            data[field["at"] : field["at"] + len(part)] = part
        return bytes(data)
    return field_bytes(param, addresses, maps)


def launch_once(cuda, function, folder, launch, declared, initial):
    """One launch on fresh buffers; what they hold afterwards."""
    addresses = {name: cuda.alloc(data) for name, data in initial.items()}
    try:
        maps = {name: encode_map(cuda, spec, addresses[spec["buffer"]]) for name, spec in launch.get("tensorMaps", {}).items()}
        for name, spec in launch["buffers"].items():
            for field in spec.get("fields", []):
                part = field_bytes(field, addresses, maps)
                cuda("cuMemcpyHtoD_v2", ctypes.c_uint64(addresses[name] + field["at"]), part, ctypes.c_size_t(len(part)))
        keep, pointers = [], (ctypes.c_void_p * max(len(launch["params"]), 1))()
        for k, (param, kind) in enumerate(zip(launch["params"], declared)):
            data = param_bytes(param, kind, addresses, maps)
            raw = ctypes.create_string_buffer(len(data) + 64)
            at = (ctypes.addressof(raw) + 63) // 64 * 64
            ctypes.memmove(at, data, len(data))
            keep.append(raw)
            pointers[k] = at
        attributes = (Attribute * 3)()
        count = 0
        if "cluster" in launch:
            attributes[count].id = 4
            struct.pack_into("<III", attributes[count].value, 0, *three(launch["cluster"]))
            count += 1
        if launch.get("cooperative"):
            attributes[count].id = 2
            struct.pack_into("<I", attributes[count].value, 0, 1)
            count += 1
        shared = launch.get("dynamicSmem", 0)
        cuda("cuFuncSetAttribute", function, 8, ctypes.c_int(shared))
        config = Config(*three(launch["grid"]), *three(launch["block"]), shared, None, attributes, count)
        cuda("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
        cuda("cuCtxSynchronize")
        return {name: cuda.read(addresses[name], len(data)) for name, data in initial.items()}
    finally:
        for pointer in addresses.values():
            try:
                cuda.free(pointer)
            except RuntimeError:
                pass


def assemble(folder, work, options):
    """A cubin of the case, or what ptxas says."""
    with open(os.path.join(folder, "kernel.ptx"), encoding="utf-8") as file:
        ptx = file.read()
    # The text may be of a later version of PTX than ptxas knows.
    target = re.search(r"^\s*\.target\s+(sm_\w+)", ptx, re.M).group(1)
    arch = "sm_90a" if re.fullmatch(r"sm_[5-9]\d", target) is not None or target == "sm_90a" else target
    if target != "sm_90a" and arch == "sm_90a":
        arch = "sm_90"
    key = hashlib.sha256((ptx + " ".join(options)).encode()).hexdigest()[:20]
    path = os.path.join(work, key + ".cubin")
    if not os.path.exists(path):
        source = os.path.join(work, key + ".ptx")
        with open(source, "w", encoding="utf-8") as file:
            file.write(ptx)
        done = subprocess.run([os.environ.get("PTXAS", "ptxas"), f"-arch={arch}", *options, source, "-o", path + ".part"], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            return None, (done.stderr or done.stdout).strip()[:600]
        os.replace(path + ".part", path)
    return path, None


MODES = {"default": [], "nofma": ["--fmad=false"]}


def work_on(folders, root, out, work):
    """In a process of its own: the cases named, one after the other; a line of JSON for each on standard output."""
    cuda = Cuda()
    for folder in folders:
        print("\n" + json.dumps({"start": folder}), flush=True)
        result = {"case": os.path.relpath(folder, root), "gpu": cuda.name}
        try:
            with open(os.path.join(folder, "launch.json"), encoding="utf-8") as file:
                launch = json.load(file)
            with open(os.path.join(folder, "kernel.ptx"), encoding="utf-8") as file:
                declared = parameters(file.read(), launch["entry"])
            about = os.path.join(folder, "about.json")
            if os.path.exists(about):
                with open(about, encoding="utf-8") as file:
                    launch["cooperative"] = bool(json.load(file).get("cooperative"))
            launch.setdefault("params", [])
            initial = {name: load_buffer(folder, spec) for name, spec in launch.get("buffers", {}).items()}
            launch.setdefault("buffers", {})
            arrays, result["modes"], started = {}, {}, time.time()
            first = None
            for mode, options in MODES.items():
                path, problem = assemble(folder, work, options)
                if path is None:
                    result["modes"][mode] = {"ptxas": problem}
                    continue
                module, function = ctypes.c_void_p(), ctypes.c_void_p()
                cuda("cuModuleLoad", ctypes.byref(module), path.encode())
                cuda("cuModuleGetFunction", ctypes.byref(function), module, launch["entry"].encode())
                runs = [launch_once(cuda, function, folder, launch, declared, initial) for _ in range(3)]
                cuda("cuModuleUnload", module)
                buffers = {}
                for name, before in initial.items():
                    after = [run[name] for run in runs]
                    changed, alike = after[0] != before, after[0] == after[1] == after[2]
                    same = first is not None and first[name] == after[0]
                    buffers[name] = {"changed": changed, "alike": alike, "sha256": hashlib.sha256(after[0]).hexdigest(), **({"asDefault": same} if first is not None else {})}
                    if changed and not same:
                        arrays[f"{mode}.{name}"] = np.frombuffer(after[0], dtype=np.uint8)
                        if not alike:
                            arrays[f"{mode}.{name}.again"] = np.frombuffer(after[1] if after[1] != after[0] else after[2], dtype=np.uint8)
                first = first or runs[0]
                result["modes"][mode] = {"buffers": buffers}
            result["seconds"] = round(time.time() - started, 3)
            if arrays:
                path = os.path.join(out, result["case"].replace("/", "__") + ".npz")
                np.savez_compressed(path, **arrays)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {str(error)[:400]}"
        print("\n" + json.dumps(result), flush=True)
        if "error" in result and "CUDA_ERROR" in result["error"]:
            break  # The context may be gone: a new process goes on.


def pump(stream, lines):
    """Lines of a process into a queue, None at its end."""
    for line in stream:
        lines.put(line)
    lines.put(None)


def drive(folders, args, deadline):
    """One share of the cases, over as many processes as it takes."""
    left, results = list(folders), []
    while left and time.time() < deadline:
        listing = os.path.join(args.work, f"list{id(left)}{len(left)}")
        with open(listing, "w", encoding="utf-8") as file:
            json.dump(left, file)
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), args.cases, args.out, "--work", args.work, "--worker", listing], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        current, began = None, time.time()
        lines = queue.Queue()
        threading.Thread(target=pump, args=(process.stdout, lines), daemon=True).start()
        ended = False
        while not ended:
            try:
                line = lines.get(timeout=1)
            except queue.Empty:
                if time.time() - began > (25 if current else 60) or time.time() > deadline:
                    process.kill()
                    break
                continue
            if line is None:
                ended = True
                break
            if not line.startswith('{"'):
                continue  # What a kernel prints.
            message = json.loads(line)
            began = time.time()
            if "start" in message:
                current = message["start"]
                continue
            results.append(message)
            with open(os.path.join(args.out, "results.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(message) + "\n")
            left.remove(current)
            current = None
        process.kill()
        errors = process.stderr.read()
        process.wait()
        if current is not None and current in left:
            left.remove(current)
            message = {"case": os.path.relpath(current, args.cases), "error": f"no end, or the process died: {errors[-300:]}"}
            with open(os.path.join(args.out, "results.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(message) + "\n")
            results.append(message)
        elif not ended and current is None:
            break
        elif ended and current is None and errors and not results:
            print(errors[-500:])
            break
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "corpus-cubins"))
    parser.add_argument("--worker")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    os.makedirs(args.work, exist_ok=True)
    if args.worker:
        with open(args.worker, encoding="utf-8") as file:
            return work_on(json.load(file), args.cases, args.out, args.work)
    deadline = time.time() + args.seconds
    folders = sorted(folder for folder, _, files in os.walk(args.cases) if "kernel.ptx" in files and "launch.json" in files)
    started = time.time()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one: _quiet(one[0], args.work, one[1]), [(folder, options) for options in MODES.values() for folder in folders]))
    print(f"{len(folders)} cases assembled in {time.time() - started:.0f} s", flush=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        shares = [folders[k :: args.jobs] for k in range(args.jobs)]
        results = [one for share in pool.map(lambda share: drive(share, args, deadline), shares) for one in share]
    bad = [one for one in results if "error" in one]
    print(f"{len(results)} of {len(folders)} cases run, {len(bad)} with an error, in {time.time() - started:.0f} s")
    for one in bad[:40]:
        print(f"  {one['case']}: {one['error'][:160]}")


def _quiet(folder, work, options):
    try:
        assemble(folder, work, options)
    except Exception as error:
        print(folder, error)


if __name__ == "__main__":
    main()
