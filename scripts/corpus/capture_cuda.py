"""Cases from public CUDA code: python capture_cuda.py SOURCES OUT [INCLUDE…]; needs nvcc, no GPU. ONLY, a pattern of source and entry, takes some of them."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np

from case import STORED, Case, parameters
from recipes import cuda as recipes

RNG = np.random.default_rng(7)


def compiled(path, folder, includes, flags, cache={}):
    """PTX of a source, and its entries by demangled name."""
    key = (path, tuple(flags))
    if key not in cache:
        out = os.path.join("/tmp", "corpus-" + re.sub(r"\W", "_", path)[-60:] + ".ptx")
        done = subprocess.run(["nvcc", "-ptx", *flags, *[f"-I{one}" for one in [folder, os.path.dirname(path), *includes]], "-o", out, path], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"! {path}: {done.stderr[:600]}")
            cache[key] = (None, {})
        else:
            with open(out, encoding="utf-8") as file:
                ptx = file.read()
            names = re.findall(r"\.entry\s+([\w$]+)", ptx)
            plain = subprocess.run(["c++filt", *names], capture_output=True, text=True).stdout.strip().split("\n")
            cache[key] = (ptx, dict(zip(plain, names)))
    return cache[key]


def only(ptx, entry):
    """The text with that one entry: what other kernels of the file need is no part of the case."""
    parts = re.split(r"(?=^(?:\.visible )?\.entry )|(?=^\t?// \.globl)", ptx, flags=re.M)
    kept = [part for part in parts if not re.match(r"(?:\.visible )?\.entry ", part) or re.match(r"(?:\.visible )?\.entry " + re.escape(entry) + r"\b", part)]
    return "".join(kept)


def fill(kind, how, count):
    if how == "z":
        return np.zeros(count, dtype=STORED[kind])
    if how.startswith("a"):
        return (np.arange(count) * int(how[1:])).astype(STORED[kind])
    if how.startswith("i"):
        return RNG.integers(0, int(how[1:]), count).astype(STORED[kind])
    values = RNG.standard_normal(count).astype(np.float32)
    if how == "p":
        values = np.abs(values) + np.float32(0.01)
    if how == "ninf":
        values = np.full(count, -np.inf, dtype=np.float32)
    if kind == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(STORED[kind])


def three(value):
    value = [value] if isinstance(value, int) else list(value)
    return (value + [1, 1, 1])[:3]


def make(out, library, name, ptx, entry, grid, block, arguments, shared, about, maps=(), cluster=None):
    case = Case(f"{library}/{name}", ptx, entry, three(grid), three(block), shared, cluster, about)
    declared = parameters(ptx, entry)
    for text, param in zip(arguments.split(), declared):
        if text.startswith("@"):
            label, kind, dims, box, swizzle = text[1:].split("|")
            dims, box = [int(n) for n in dims.split("x")], [int(n) for n in box.split("x")]
            size = np.dtype(STORED[kind]).itemsize
            strides = [int(np.prod(dims[: k + 1])) * size for k in range(len(dims) - 1)]
            case.launch["tensorMaps"][label] = {"buffer": label.split(".")[0], "dtype": kind, "dims": dims, "strides": strides, "box": box, "swizzle": swizzle, "l2": "none"}
            case.launch["params"].append({"tensorMap": label})
        elif ":" in text:
            label, kind, how, count = text.split(":")
            case.buffer(label, fill(kind, how, int(count)), kind)
            case.launch["params"].append({"buffer": label})
        elif param["array"]:
            case.launch["params"].append({"bytes": "00" * param["bytes"]})
        else:
            text = text.split("=")[-1]
            number = float(text) if "." in text or "e" in text else int(text)
            case.launch["params"].append(number)
    for label, kind, how, count in maps:
        case.buffer(label, fill(kind, how, count), kind)
    if len(case.launch["params"]) != len(declared):
        print(f"! {name}: {len(case.launch['params'])} arguments for {len(declared)} parameters")
        return
    case.write(out)
    print(f"  {case.name}")


def edited(path):
    """The source, or a copy with sizes for an emulator in its place."""
    edits = [one for key, ones in recipes.EDITS.items() if key in path for one in ones]
    if not edits:
        return path
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for pattern, put in edits:
        text = re.sub(pattern, put, text)
    copy = os.path.join("/tmp", "corpus-" + os.path.basename(path))
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    return copy


def find(entries, start):
    hits = [name for name in entries if name.startswith(start)]
    return entries[hits[0]] if hits else None


def main():
    sources, out, *includes = sys.argv[1:]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sources.json"), encoding="utf-8") as file:
        known = json.load(file)
    about_of = lambda repository, path: {"compiler": "nvcc 13.0", "source": {**{key: known[repository][key] for key in ("repository", "commit", "licence")}, "file": path}}
    lists = [("llmc", recipes.LAUNCHES, recipes.FAST), ("sgemm", recipes.SGEMMS, recipes.PLAIN), ("samples", recipes.SAMPLES, recipes.PLAIN)]
    for library, launches, flags in lists:
        for source, start, grid, block, arguments, shared in launches:
            if not re.search(os.environ.get("ONLY", ""), f"{source} {start}"):
                continue
            repository, path = source.split(":")
            folder = os.path.join(sources, repository.replace("/", "+"))
            common = [os.path.join(folder, "Common")] if library == "samples" else []
            ptx, entries = compiled(edited(os.path.join(folder, path)), folder, [*common, os.path.join(folder, os.path.dirname(path)), *includes], flags)
            entry = ptx and find(entries, start)
            if not entry:
                print(f"! {source} {start}: no such entry")
                continue
            stem = os.path.basename(path)[:-3]
            name = f"{stem}.{re.sub(r'[^A-Za-z0-9]+', '_', start.replace('void ', '')).strip('_')}"
            make(out, library, name, only(ptx, entry), entry, grid, block, arguments, shared, about_of(repository, path))
    for number, start, grid, block, m, n, k, rows_a, rows_b, shared in recipes.FASTS:
        if not re.search(os.environ.get("ONLY", ""), f"fast.cu {start}"):
            continue
        folder = os.path.join(sources, recipes.FAST_CU.replace("/", "+"), "examples/matmul")
        path = os.path.join("/tmp", f"corpus-fast{number}.cu")
        with open(path, "w", encoding="utf-8") as file:
            # What the headers expect of the program that includes them.
            file.write('#include <cuda.h>\n#include <cuda_bf16.h>\n#include <cuda/barrier>\n#include <cassert>\n#include <cstdio>\n#include <cstdlib>\ntypedef __nv_bfloat16 bf16;\n#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))\n')
            file.write('void cudaCheck(cudaError_t error, const char *file, int line);\n#define cudaCheck(err) (cudaCheck(err, __FILE__, __LINE__))\n')
            file.write(f'#include "matmul_{number}.cuh"\nvoid use() {{ M{number}::runKernel{number}(0, 0, 0, nullptr, nullptr, nullptr{", nullptr" if number > 2 else ""}); }}\n')
        ptx, entries = compiled(path, folder, includes, ["-O3", "-std=c++17", "-arch=sm_90a"])
        names = [name for name in entries if start in name]
        if not names:
            print(f"! fast.cu {start}: no such entry of {list(entries)[:4]}")
            continue
        entry = entries[names[0]]
        case = Case(f"fastcu/matmul_{number}", only(ptx, entry), entry, three(grid), three(block), shared, None, about_of(recipes.FAST_CU, f"examples/matmul/matmul_{number}.cuh"))
        case.buffer("a", fill("bf16", "n", m * k), "bf16")
        case.buffer("b", fill("bf16", "n", n * k), "bf16")
        case.buffer("c", fill("bf16", "z", m * n), "bf16")
        for label, height, rows in (("a", m, rows_a), ("b", n, rows_b)):
            case.launch["tensorMaps"][f"{label}Map"] = {"buffer": label, "dtype": "bf16", "dims": [k, height], "strides": [2 * k], "box": [64, rows], "swizzle": "128B"}
            case.launch["buffers"][f"{label}Desc"] = {"bytes": 128, "fill": "zeros", "fields": [{"at": 0, "tensorMap": f"{label}Map"}]}
        case.launch["params"] = [m, n, k, {"buffer": "c"}, {"buffer": "aDesc"}, {"buffer": "bDesc"}, *([0] if number == 3 else [])]
        case.write(out)
        print(f"  {case.name}")


main()
