"""A case of the corpus: a folder with kernel.ptx, launch.json (tilewright schema launch) and the arrays that it names."""
import hashlib
import json
import os
import re

import numpy as np

ELEMENTS = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "int8": "s8", "uint8": "u8", "bool": "u8", "int16": "s16", "uint16": "u16",
    "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64",
    "complex64": "f32", "complex128": "f64",
}  # fmt: skip
STORED = {
    "f16": "<f2", "bf16": "<u2", "f32": "<f4", "f64": "<f8", "e4m3": "|u1", "e5m2": "|u1",
    "s8": "|i1", "u8": "|u1", "s16": "<i2", "u16": "<u2", "s32": "<i4", "u32": "<u4", "s64": "<i8", "u64": "<u8",
}  # fmt: skip

SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def parameters(ptx, entry):
    """Of an entry, each parameter as {type, bytes, align}; bytes of a .b8 array are its extent."""
    head = re.search(r"\.entry\s+" + re.escape(entry) + r"\s*\(([^)]*)\)", ptx)
    if head is None:
        if re.search(r"\.entry\s+" + re.escape(entry) + r"(?![\w$])", ptx):
            return []
        raise ValueError(f"no entry {entry}")
    found = []
    for text in filter(None, (one.strip() for one in re.sub(r"//[^\n]*", "", head.group(1)).split(","))):
        kind = re.search(r"\.([busf])(8|16|32|64)\b", text)
        extent = re.search(r"\[(\d+)\]", text)
        align = re.search(r"\.align\s+(\d+)\s+\.b", text)
        size = SIZES[kind.group(2)] * (int(extent.group(1)) if extent else 1)
        found.append({"type": kind.group(1) + kind.group(2), "bytes": size, "array": extent is not None, "align": int(align.group(1)) if align else size})
    return found


class Case:
    """Buffers, tensor maps and parameters of a launch, to be written as a folder."""

    def __init__(self, name, ptx, entry, grid, block, shared=0, cluster=None, about=None):
        self.name, self.ptx = name, ptx
        self.launch = {"entry": entry, "grid": list(grid), "block": list(block), "dynamicSmem": int(shared), "buffers": {}, "tensorMaps": {}, "params": []}
        if cluster and tuple(cluster) != (1, 1, 1):
            self.launch["cluster"] = list(cluster)
        self.about = about or {}
        self.arrays = {}

    def buffer(self, name, array, dtype):
        """Device memory that holds an array; dtype is an element type of launch files, array its bits."""
        bits = np.ascontiguousarray(array)
        if bits.size == 0:
            bits = np.zeros(16, dtype=STORED[dtype])
        bits = bits.view(STORED[dtype]) if bits.dtype.itemsize == np.dtype(STORED[dtype]).itemsize else bits
        self.arrays[name] = bits
        self.launch["buffers"][name] = {"dtype": dtype, "fill": {"file": f"{name}.npy"}}
        if not bits.view(np.uint8).any():
            self.launch["buffers"][name] = {"dtype": dtype, "shape": list(bits.shape) or [1], "fill": "zeros"}

    def write(self, root):
        """Write the folder; returns its path."""
        folder = os.path.join(root, self.name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "kernel.ptx"), "w", encoding="utf-8") as file:
            file.write(self.ptx)
        for name, bits in self.arrays.items():
            if self.launch["buffers"][name]["fill"] != "zeros":
                np.save(os.path.join(folder, f"{name}.npy"), bits.reshape(bits.shape or (1,)))
        launch = {key: value for key, value in self.launch.items() if value != {}}
        with open(os.path.join(folder, "launch.json"), "w", encoding="utf-8") as file:
            json.dump(launch, file, indent=1)
        about = {**self.about, "sha256": hashlib.sha256(self.ptx.encode()).hexdigest()}
        with open(os.path.join(folder, "about.json"), "w", encoding="utf-8") as file:
            json.dump(about, file, indent=1)
        return folder
