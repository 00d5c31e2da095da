"""Run the corpus on the emulator: python run.py CASES OUT [--only PATTERN] [--seconds S] [--order eager|lazy|random|all] [--seeds N] [--again].

Of every case OUT/results.jsonl keeps whether it loads and runs, its findings under the profile of its compiler, the time of the
run, and the bits of its buffers after the first order (OUT/NAME.npz), which compare.py holds against replay.py's. With several orders
`differing` names the buffers whose bits depend on the order, and each finding has the order that showed it first.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
# TILEWRIGHT names another build of the command line.
PROGRAM = os.environ["TILEWRIGHT"].split() if "TILEWRIGHT" in os.environ else [os.path.join(ROOT, "node_modules/.bin/node"), "--conditions=@tilewright/source", "--no-warnings", os.path.join(ROOT, "packages/cli/src/bin.ts")]
# .npy knows no such types: their bits are written.
BITS = {"bf16": "u16", "e4m3": "u8", "e5m2": "u8", "f16": "u16", "f32": "u32", "f64": "u64"}


def profile_of(folder):
    with open(os.path.join(folder, "about.json"), encoding="utf-8") as file:
        compiler = json.load(file).get("compiler", "")
    return "triton" if "triton" in compiler else "nvcc"


def run(folder, seconds, order="eager", extra=()):
    """One run; a result and the buffers' bytes."""
    with open(os.path.join(folder, "launch.json"), encoding="utf-8") as file:
        launch = json.load(file)
    with tempfile.TemporaryDirectory() as made:
        launch.setdefault("buffers", {})
        for buffer in launch["buffers"].values():
            if "dtype" in buffer:
                buffer["dtype"] = BITS.get(buffer["dtype"], buffer["dtype"])
            if isinstance(buffer.get("fill"), dict) and "file" in buffer["fill"]:
                array = np.load(os.path.join(folder, buffer["fill"]["file"]))
                name = buffer["fill"]["file"]
                np.save(os.path.join(made, name), array.view({"f": "u"}.get(array.dtype.kind, array.dtype.kind) + str(array.dtype.itemsize)))
        launch["outputs"] = {name: f"after_{name}.npy" for name, buffer in launch["buffers"].items() if "dtype" in buffer}
        path = os.path.join(made, "launch.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(launch, file)
        words = ["emulate", os.path.join(folder, "kernel.ptx"), "--launch", path, "--profile", profile_of(folder), "--order", order, "--json", "--quiet", *extra]
        started = time.time()
        result = {"order": order}
        try:
            done = subprocess.run(["nice", *PROGRAM, *words], capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {**result, "state": "timeout", "wall": seconds}, {}
        result["wall"] = round(time.time() - started, 2)
        try:
            data = json.loads(done.stdout)
        except ValueError:
            return {**result, "state": "crash", "message": (done.stderr or done.stdout)[-600:]}, {}
        if "diagnostics" in data:
            return {**result, "state": "refused", "diagnostics": [{key: one.get(key) for key in ("code", "at", "message")} for one in data["diagnostics"]][:5]}, {}
        first = data["runs"][0]
        result["state"] = "runs" if all(one["completed"] for one in data["runs"]) else "gave up"
        result["ms"] = round(first["timeMs"], 1)
        result["runs"] = [[one["order"], one["seed"], one["completed"], round(one["timeMs"], 1)] for one in data["runs"]]
        result["findings"] = [
            {key: one.get(key) for key in ("rule", "severity", "message", "instruction", "location", "source", "count", "order", "seed", "suppressed")} for one in data["findings"]
        ]
        result["differing"] = data.get("differing", [])
        buffers = {}
        for name in launch["buffers"]:
            after = os.path.join(made, f"after_{name}.npy")
            if os.path.exists(after):
                buffers[name] = np.frombuffer(np.load(after).tobytes(), dtype=np.uint8)
        return result, buffers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--order", default="eager")
    parser.add_argument("--seeds", type=int, default=1, help="random orders of so many seeds")
    parser.add_argument("--again", action="store_true", help="cases that have a result already, too")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    listing = os.path.join(args.out, "results.jsonl")
    known = set()
    if os.path.exists(listing) and not args.again:
        with open(listing, encoding="utf-8") as file:
            known = {json.loads(line)["case"] for line in file}
    folders = sorted(folder for folder, _, files in os.walk(args.cases) if "kernel.ptx" in files and "launch.json" in files)
    for folder in folders:
        case = os.path.relpath(folder, args.cases)
        if case in known or not re.search(args.only, case):
            continue
        result, buffers = run(folder, args.seconds, args.order, ["--seeds", str(args.seeds)] if args.order in ("random", "all") else [])
        with open(listing, "a", encoding="utf-8") as file:
            file.write(json.dumps({"case": case, **result}) + "\n")
        if buffers:
            np.savez_compressed(os.path.join(args.out, case.replace("/", "__") + ".npz"), **buffers)
        print(case, result["state"], result["wall"], [one["rule"] for one in result.get("findings", [])], result.get("diagnostics", result.get("message", "")), flush=True)


if __name__ == "__main__":
    main()
