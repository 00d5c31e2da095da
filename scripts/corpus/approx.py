"""What a GPU's approximate functions give: python approx.py approx.cubin OUT (numpy and libcuda alone; about 15 s).

hashes.json: of each function, two 32-bit sums over the outputs of each 2^20 inputs (all 2^32 bit patterns; pairs of div: 2^26).
NAME.START.bin.xz: outputs of 2^23 consecutive inputs, as second differences of their bits (int8, 127 escapes), lossless.
"""
import ctypes
import json
import lzma
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np

LISTS = {
    "rcp_ftz": [0x3F800000], "rsqrt_ftz": [0x3F800000, 0x40000000], "sqrt_ftz": [0x3F800000, 0x40000000],
    "ex2_ftz": [0x3F800000, 0x3F000000, 0x3E800000, 0xBF800000, 0x40000000],
    "lg2_ftz": [0x3F800000, 0x3F000000, 0x40000000, 0x41800000, 0x3E800000],
    "sin_ftz": [0x3F800000, 0x3F000000, 0x40000000, 0x3E800000, 0x40800000], "cos_ftz": [0x3F800000, 0x3F000000, 0x40000000, 0x40800000],
    "tanh": [0x3D800000, 0x3E000000, 0x3E800000, 0x3F000000, 0x3F800000, 0x40000000, 0x40800000],
}  # fmt: skip
# Some more, thinly: 2^16 from here on.
THIN = {
    "ex2_ftz": [0xBF800000, 0x3E000000, 0x41000000, 0x38000000, 0xC2F00000, 0x42FE0000], "lg2_ftz": [0x40000000, 0x42000000, 0x3E000000, 0x3F7F0000, 0x00800000],
    "sin_ftz": [0x40000000, 0x42000000, 0x3C000000, 0xBF800000, 0x47000000], "cos_ftz": [0x40000000, 0x42000000, 0x3C000000, 0x47000000],
    "tanh": [0x3C000000, 0x39000000, 0x40800000, 0x41000000, 0xBF800000], "rcp": [0x00000000, 0x7E800000], "rsqrt": [0x0], "sqrt": [0x0], "ex2": [0xC3000000, 0xC2FC0000], "lg2": [0x0],
    "sin": [0x0, 0x4B000000], "cos": [0x4B000000], "div_approx": [0x0], "div_full": [0x0],
}  # fmt: skip


def pack(task):
    path, raw = task
    bits = np.frombuffer(raw, dtype="<u4").astype(np.int64)
    second = np.diff(bits, n=2, prepend=[0, 0])
    small = np.clip(second, -127, 127).astype(np.int8)
    escapes = second[(second >= 127) | (second <= -127)]
    small[(second >= 127) | (second <= -127)] = 127
    data = len(escapes).to_bytes(8, "little") + escapes.astype("<i8").tobytes() + small.tobytes()
    with open(path, "wb") as file:
        file.write(lzma.compress(data, preset=1))
    return path, os.path.getsize(path)


def unpack(path):
    """The outputs' bits again."""
    with open(path, "rb") as file:
        data = lzma.decompress(file.read())
    count = int.from_bytes(data[:8], "little")
    escapes = np.frombuffer(data, "<i8", count, 8)
    second = np.frombuffer(data, np.int8, -1, 8 + 8 * count).astype(np.int64)
    second[second == 127] = escapes
    return np.cumsum(np.cumsum(second)).astype(np.uint32)


def main():
    from replay import Config, Cuda

    cubin, out = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    cuda, module = Cuda(), ctypes.c_void_p()
    cuda("cuModuleLoad", ctypes.byref(module), cubin.encode())

    def launch(name, grid, block, pointer, number):
        function = ctypes.c_void_p()
        cuda("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        a, b = ctypes.c_uint64(pointer), ctypes.c_uint32(number)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(a), ctypes.addressof(b))
        cuda("cuLaunchKernelEx", ctypes.byref(Config(grid, 1, 1, block, 1, 1, 0, None, None, 0)), function, values, None)
        cuda("cuCtxSynchronize")

    started = time.time()
    hashes = {"gpu": cuda.name}
    names = ["rcp", "rcp_ftz", "rsqrt", "rsqrt_ftz", "sqrt", "sqrt_ftz", "ex2", "ex2_ftz", "lg2", "lg2_ftz", "sin", "sin_ftz", "cos", "cos_ftz", "tanh"]
    for name in [*names, "div_approx", "div_approx_ftz", "div_full", "div_full_ftz"]:
        blocks = 64 if name.startswith("div") else 4096
        try:
            pointer = cuda.alloc(bytes(8 * blocks))
            launch(f"hash_{name}", blocks, 512, pointer, 1 << 20)
            hashes[name] = np.frombuffer(cuda.read(pointer, 8 * blocks), "<u4").tolist()
            cuda.free(pointer)
        except RuntimeError as error:
            hashes[name] = str(error)
        with open(os.path.join(out, "hashes.json"), "w", encoding="utf-8") as file:
            json.dump(hashes, file)
    print(f"hashes {time.time() - started:.1f} s", flush=True)
    small = {}
    for name in ("ex2_f16", "ex2_bf16", "tanh_f16", "tanh_bf16"):
        pointer = cuda.alloc(bytes(4 * 65536))
        launch(f"list_{name}", 256, 256, pointer, 0)
        small[name] = np.frombuffer(cuda.read(pointer, 4 * 65536), "<u4").astype(np.uint16)
        cuda.free(pointer)
    for name, starts in THIN.items():
        for start in starts:
            pointer = cuda.alloc(bytes(4 * 65536))
            launch(f"list_{name}", 256, 256, pointer, start)
            small[f"{name}.{start:08x}"] = np.frombuffer(cuda.read(pointer, 4 * 65536), "<u4")
            cuda.free(pointer)
    np.savez_compressed(os.path.join(out, "small.npz"), **small)
    tasks = []
    for name, starts in LISTS.items():
        for start in starts:
            pointer = cuda.alloc(bytes(4 << 23))
            launch(f"list_{name}", (1 << 23) // 512, 512, pointer, start)
            tasks.append((os.path.join(out, f"{name}.{start:08x}.bin.xz"), cuda.read(pointer, 4 << 23)))
            cuda.free(pointer)
    print(f"lists {time.time() - started:.1f} s", flush=True)
    with ProcessPoolExecutor(8) as pool:
        for path, size in pool.map(pack, tasks):
            print(f"{path} {size}")
    print(f"packed {time.time() - started:.1f} s")


if __name__ == "__main__":
    main()
