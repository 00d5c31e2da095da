#!/usr/bin/env python3
"""Searches schedules on the GPU machine itself: all its cores assemble candidates, the GPU times them, and the fastest are varied further.

    python3 evolve.py SEARCHES.json --out FOLDER [--emit "node search.mjs emit"] [--jobs 15]

Needs torch with CUDA (cuBLAS to compare with, memory, events) and ptxas; `--emit` is `npm run search -- emit`, or one file bundled from search.ts.
SEARCHES.json is a list. Each search has a `name`, `mnk` and `seconds`, and may have

    space     field of the schedule -> words to draw from ("large", "small": the two below)
    seeds     schedules to begin with; `from`: names of earlier searches whose best are seeds, too
    fixed     fields that all candidates have
    arch      target of the text (sm_90); ptxas assembles for sm_90 whatever it is
    layouts   of A and B, ["row", "col"]
    sets      operands to rotate over, where one set would stay in L2
    reps      launches of a burst in the search; `burst`, `rounds`, `keep`: of the final comparison
    graph     true: a burst is one CUDA graph, for kernels as short as a launch from Python takes

The final comparison takes the fastest `keep` and torch.mm (TF32 off) in `rounds` rounds of bursts in random order; results are checked against torch.mm.
FOLDER/NAME.jsonl has one line for each, fastest first; FOLDER/NAME.all.jsonl one for each that was timed at all, as it was timed in the search.

A field named `shape` is words that each set several fields, for those that only fit together: "tile=96x128x8 thread=12x8 strip=4x4".
"""

import argparse
import ctypes
import hashlib
import json
import os
import queue
import random
import shlex
import statistics
import subprocess
import tempfile
import threading
import time

import torch

LINES = [a + b for a in ("up", "down", "flip") for b in ("", ":4", ":8", ":12")]
ALONG = [a + b for a in ("up", "down", "flip") for b in ("", ":4")]

SPACES = {
    "large": {
        "tile": ["128x128x8"],
        "thread": ["16x8"],
        "copy": ["cp.async", "cp.async", "direct"],
        "walkLines": LINES,
        "walkAlong": ALONG,
        "operandOrder": ["ab", "ba"],
        "raster": ["grouped:4", "grouped:8", "grouped:16", "snake:8", "row"],
        "copySpread": ["1", "2", "3", "4", "5", "6", "7"],
        "registerStoreStep": ["3", "4", "5", "6"],
        "stages": ["3", "4", "5"],
        "drain": ["0", "1", "2", "2", "3", "3"],
        "vectorsPerThread": ["1", "2", "4", "8"],
        "sharedLayout": ["pad", "pad", "pad", "swizzle"],
        "streamk": ["264", "264", "0"],
    },
    "small": {
        "lanes": ["1x32", "2x16", "4x8", "8x4", "16x2", "32x1"],
        "rows": ["1", "2", "4", "8", "16"],
        "columns": ["1", "2", "4", "8", "16"],
        "warps": ["1x1", "1x2", "2x1", "2x2", "1x4", "4x1", "2x4", "1x8"],
        "depth": ["8", "16", "16", "32", "64"],
        "copy": ["cp.async", "cp.async", "direct"],
        "walkLines": LINES,
        "walkAlong": ALONG,
        "operandOrder": ["ab", "ba"],
        "raster": ["grouped:8", "row", "col"],
        "copySpread": ["1", "2", "3", "5", "7"],
        "stages": ["2", "3", "4", "5", "6"],
        "drain": ["0", "1", "2", "3"],
        "vectorsPerThread": ["1", "2", "4"],
        "sharedLayout": ["pad", "pad", "swizzle"],
        "split": ["1", "2", "3", "4", "6", "8", "11", "12", "16", "22", "24", "32", "33", "44", "48", "64", "66"],
        "reduction": ["last", "kernel", "atomics"],
        "streamk": ["0", "0", "0", "0", "132", "264", "528", "792"],
    },
}


def pair(text):
    return tuple(int(x) for x in text.split("x"))


def schedule_of(genes):
    """The text of a candidate. Fields that contradict each other give way, so that most candidates are legal."""
    if "text" in genes:
        return genes["text"]
    g = dict(genes)
    if "shape" in g:
        g.update(word.split("=", 1) for word in g.pop("shape").split())
    if "rows" in g:
        rows, columns = int(g.pop("rows")), int(g.pop("columns"))
        lanes, warps, depth = pair(g["lanes"]), pair(g.pop("warps")), int(g.pop("depth"))
        g["tile"] = f"{lanes[0] * warps[0] * rows}x{lanes[1] * warps[1] * columns}x{depth}"
        g["thread"], g["strip"] = f"{rows}x{columns}", f"{min(4, rows)}x{min(4, columns)}"
    direct = g["copy"] == "direct"
    if g.get("stagedOperands") == "off":
        g.update(copy="direct", stages="1", prefetch="off", frag="1", spread="1", drain="0")
    elif direct:
        g["stages"], g["registerPrefetch"] = str(min(3, int(g["stages"]))), "on"
        g["copySpread"], g["drain"] = str(min(2, int(g["copySpread"]))), str(min(1, int(g["drain"])))
    else:
        g.pop("registerStoreStep", None)
        g["registerPrefetch"] = "off"
        g["drain"] = str(min(int(g["drain"]), int(g["stages"]) - 1))
    if g.get("frag") == "1":
        g["copySpread"] = "1"
    # Operands that come straight from memory pass through registers.
    if g.get("stagedOperands", "ab") != "ab" and g.get("streamk", "0") == "0":
        g["drain"] = "0"
    g["copySpread"] = str(min(int(g["copySpread"]), pair(g["tile"])[2] - 1))
    if g.get("streamk", "0") != "0":
        g["split"] = "1"
        if g.get("reduction") in ("kernel", "cluster"):
            g["reduction"] = "last"
    return " ".join(f"{name}={word}" for name, word in g.items())


class Assembler:
    """Threads that turn schedules into machine code: `ask` queues one, `done` holds (search, genes, kernels, cubin or None)."""

    def __init__(self, emit, jobs):
        self.wanted, self.done = queue.Queue(), queue.Queue()
        self.folder = tempfile.mkdtemp(prefix="evolve-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        for number in range(jobs):
            threading.Thread(target=self._work, args=(emit, number), daemon=True).start()

    def ask(self, search, genes, request):
        self.wanted.put((search, genes, request))

    def forget(self):
        while not self.wanted.empty():
            try:
                self.wanted.get_nowait()
            except queue.Empty:
                return

    def _work(self, emit, number):
        process = subprocess.Popen(shlex.split(emit), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        source, image = (os.path.join(self.folder, f"{number}.{end}") for end in ("ptx", "cubin"))
        while True:
            search, genes, request = self.wanted.get()
            process.stdin.write(json.dumps({**request, "out": source}) + "\n")
            process.stdin.flush()
            reply = json.loads(process.stdout.readline())
            cubin = None
            if "error" not in reply:
                made = subprocess.run(["ptxas", "-arch=sm_90", "-v", "-o", image, source], capture_output=True, text=True)
                spills = "spill stores" in made.stderr and " 0 bytes spill stores" not in made.stderr
                if made.returncode == 0 and not spills:
                    with open(image, "rb") as file:
                        cubin = file.read()
            self.done.put((search, genes, reply, cubin))


driver = ctypes.CDLL("libcuda.so.1")


def check(status):
    if status != 0:
        raise RuntimeError(f"CUDA error {status}")


class Kernels:
    """The kernels of a cubin, launched one after the other on torch's stream."""

    def __init__(self, cubin, kernels):
        self.module = ctypes.c_void_p()
        check(driver.cuModuleLoadData(ctypes.byref(self.module), ctypes.c_char_p(cubin)))
        self.launches = []
        for kernel in kernels:
            function = ctypes.c_void_p()
            check(driver.cuModuleGetFunction(ctypes.byref(function), self.module, kernel["entry"].encode()))
            launch = kernel["launch"]
            if launch["dynamicSmem"] > 48 * 1024:
                check(driver.cuFuncSetAttribute(function, 8, launch["dynamicSmem"]))
            names = [p["name"] for p in kernel["params"]]
            self.launches.append((function, (*launch["grid"], *launch["block"], launch["dynamicSmem"]), names, {}))

    def run(self, operands):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for function, shape, names, known in self.launches:
            if id(operands) not in known:
                values = [ctypes.c_uint64(operands[name]) for name in names]
                cells = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
                known[id(operands)] = (values, cells)
            check(driver.cuLaunchKernel(function, *shape, stream, known[id(operands)][1], None))

    def unload(self):
        driver.cuModuleUnload(self.module)


class Size:
    """Operands of one problem, in as many sets as keep them out of L2."""

    def __init__(self, search, workspace):
        m, n, k = search["mnk"]
        layouts = search.get("layouts", ["row", "row"])

        def matrix(rows, columns, layout):
            if layout == "row":
                return torch.randn(rows, columns, device="cuda")
            return torch.randn(columns, rows, device="cuda").t()

        self.sets = [
            (matrix(m, k, layouts[0]), matrix(k, n, layouts[1]), torch.empty(m, n, device="cuda"))
            for _ in range(search.get("sets", 1))
        ]
        self.workspace = workspace
        self.operands = [
            {"a": a.data_ptr(), "b": b.data_ptr(), "d": d.data_ptr(), "workspace": workspace.data_ptr()}
            for a, b, d in self.sets
        ]
        self.expected = torch.mm(*self.sets[0][:2])
        self.capture = torch.cuda.Stream() if search.get("graph") else None

    def launch(self, kernels, i):
        if kernels is None:
            a, b, d = self.sets[i % len(self.sets)]
            torch.mm(a, b, out=d)
        else:
            kernels.run(self.operands[i % len(self.operands)])

    def burst(self, kernels, launches):
        """What does so many launches: a graph of them, where the search asked for graphs."""
        if self.capture is None:
            return lambda: [self.launch(kernels, i + 1) for i in range(launches)]
        torch.cuda.synchronize()
        with torch.cuda.stream(self.capture):
            self.launch(kernels, 0)
            self.capture.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            for i in range(launches):
                self.launch(kernels, i + 1)
            graph.capture_end()
        torch.cuda.synchronize()
        return graph.replay

    def time(self, kernels, launches):
        """Microseconds of one launch, of a burst behind one more; of torch.mm where there are no kernels."""
        burst = self.burst(kernels, launches)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.launch(kernels, 0)
        begin.record()
        burst()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / launches * 1000

    def clear(self):
        """Counters and sums that kernels expect to be 0: they lie at the workspace's start."""
        self.workspace[: 16 << 20].zero_()

    def right(self, kernels):
        d = self.sets[0][2].fill_(float("nan"))
        self.clear()
        kernels.run(self.operands[0])
        kernels.run(self.operands[0])
        torch.cuda.synchronize()
        return ((d - self.expected).abs().max() / self.expected.abs().max()).item() < 1e-5


def propose(space, fixed, best, fits):
    """Fields at random; where there are good ones already mostly those with a few fields changed, or crossed."""
    parents = [genes for genes in best if "text" not in genes]
    while True:
        luck = random.random()
        if len(parents) < 10 or luck < 0.2:
            genes = {name: random.choice(words) for name, words in space.items()}
        else:
            first = parents[min(int(random.expovariate(1 / 6)), len(parents) - 1)]
            if luck < 0.7:
                changed = random.sample(list(space), random.choice([1, 1, 2, 3]))
                genes = {**first, **{name: random.choice(space[name]) for name in changed}}
            else:
                other = random.choice(parents)
                genes = {name: random.choice((first, other)).get(name, first[name]) for name in first}
        if fits(genes):
            return {**genes, **fixed}


def fitting(m, n):
    """Tiles of a sensible size: not far beyond the matrix, and no more sums than a thread has registers for."""

    def fits(genes):
        if "rows" not in genes:
            return True
        lanes, warps = pair(genes["lanes"]), pair(genes["warps"])
        rows, columns = int(genes["rows"]), int(genes["columns"])
        return lanes[0] * warps[0] * rows < 2 * m and lanes[1] * warps[1] * columns < 2 * n and rows * columns <= 128

    return fits


def genes_of(text, space):
    """A seed as fields, which are varied; as it stands where the space makes tiles of other genes."""
    if "rows" in space:
        return {"text": text}
    fields = dict(word.split("=", 1) for word in text.split())
    return {"copy": "direct", "stages": "2", "copySpread": "1", "drain": "0", "streamk": "0", "vectorsPerThread": "1", **fields}


def search_one(search, assembler, workspace, seeds, out):
    m, n, k = search["mnk"]
    name, space = search["name"], search.get("space", "large")
    space = SPACES[space] if isinstance(space, str) else space
    size = Size(search, workspace)
    request = {"m": m, "n": n, "k": k, "arch": search.get("arch", "sm_90"), "layouts": search.get("layouts", ["row", "row"])}
    asked, seen, ranked, peers = set(), set(), [], []
    waiting = 0

    def ask(genes):
        nonlocal waiting
        text = schedule_of(genes)
        if text not in asked:
            asked.add(text)
            waiting += 1
            assembler.ask(name, genes, {**request, "schedule": text})

    for text in seeds:
        ask(genes_of(text, space))
    reps, fixed, fits = search.get("reps", 4), search.get("fixed", {}), fitting(m, n)
    for _ in range(3):
        peers.append(size.time(None, reps))
    every = open(os.path.join(out, f"{name}.all.jsonl"), "w")
    ends, timed = time.time() + search["seconds"], 0
    while time.time() < ends:
        for _ in range(1000):
            if waiting >= 2 * search["jobs"]:
                break
            ask(propose(space, fixed, [genes for _, genes, _, _ in ranked[:24]], fits))
        try:
            whose, genes, reply, cubin = assembler.done.get(timeout=1)
        except queue.Empty:
            continue
        if whose != name:
            continue
        waiting -= 1
        code = hashlib.sha256(cubin or b"").hexdigest()
        if cubin is None or code in seen:
            continue
        seen.add(code)
        if timed % 8 == 0:
            peers.append(size.time(None, reps))
        timed += 1
        kernels = Kernels(cubin, reply["kernels"])
        size.clear()
        us = size.time(kernels, reps)
        every.write(json.dumps({"mnk": [m, n, k], "us": us, "schedule": reply["schedule"]}) + "\n")
        ranked.append((us / statistics.median(peers[-5:]), genes, cubin, reply))
        ranked.sort(key=lambda one: one[0])
        del ranked[80:]
        kernels.unload()
    every.close()
    assembler.forget()
    entries = [("torch.mm", None)] + [
        (reply["schedule"], Kernels(cubin, reply["kernels"])) for _, _, cubin, reply in ranked[: search.get("keep", 12)]
    ]
    right = {text: kernels is None or size.right(kernels) for text, kernels in entries}
    times = {text: [] for text, _ in entries}
    for _ in range(search.get("rounds", 7)):
        for text, kernels in random.sample(entries, len(entries)):
            times[text].append(size.time(kernels, search.get("burst", reps)))
    for _, kernels in entries:
        if kernels is not None:
            kernels.unload()
    peer = statistics.median(times["torch.mm"])
    rows = [
        {
            "mnk": [m, n, k],
            "us": statistics.median(us),
            "ratio": peer / statistics.median(us),
            "right": right[text],
            "schedule": text,
        }
        for text, us in times.items()
    ]
    rows.sort(key=lambda row: row["us"])
    with open(os.path.join(out, f"{name}.jsonl"), "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    print(f"{name}: {timed} timed, {len(asked)} tried; torch.mm {peer:.1f} us", flush=True)
    for row in rows[: search.get("show", 6)]:
        print(f"  {row['ratio']:.4f} {row['us']:.1f} us{'' if row['right'] else ' WRONG'} {row['schedule']}", flush=True)
    return [row["schedule"] for row in rows if row["right"] and row["schedule"] != "torch.mm"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("searches")
    parser.add_argument("--out", default=".")
    parser.add_argument("--emit", default="npm run -s search -- emit")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    assembler = Assembler(args.emit, args.jobs)
    torch.backends.cuda.matmul.allow_tf32 = False
    workspace = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
    print(torch.cuda.get_device_name(0), flush=True)
    with open(args.searches) as file:
        searches = json.load(file)
    found = {}
    for search in searches:
        seeds = [*search.get("seeds", []), *(text for name in search.get("from", []) for text in found.get(name, [])[:8])]
        found[search["name"]] = search_one({**search, "jobs": args.jobs}, assembler, workspace, seeds, args.out)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
