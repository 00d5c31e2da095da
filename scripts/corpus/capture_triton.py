"""Cases from public Triton code: python capture_triton.py SOURCES OUT [LIBRARY…], no GPU needed.

SOURCES holds clones named owner+name (sources.json says which, at which commit, under which licence). Every launch of a
recipe is a case; what a kernel writes comes from the emulator, so that the next kernel of a chain has real inputs.
"""
import hashlib
import importlib
import json
import os
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np
import torch

import triton_capture
from triton_capture import Launcher, bits_of

MOST = 12  # launches of one recipe
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
EMULATE = [os.path.join(ROOT, "node_modules/.bin/node"), "--conditions=@tilewright/source", "--no-warnings", os.path.join(ROOT, "packages/cli/src/bin.ts"), "emulate"]


class Recorder:
    """The sink of a recipe's launches."""

    def __init__(self, out, sources):
        self.out, self.sources, self.seen, self.log = out, sources, {}, []
        self.pending = None
        self.start("", "", None)

    def start(self, library, recipe, about):
        self.library, self.recipe, self.about, self.count = library, recipe, about or {}, 0
        self.pending = None

    def __call__(self, case, tensors):
        if self.count >= MOST:
            raise RuntimeError("launches enough")
        self.settle()
        entry = case.launch["entry"]
        # Inputs may have changed by the emulator's run of the launch before: take them again.
        for name, tensor in tensors.items():
            bits, kind = bits_of(tensor)
            before = case.arrays[name]
            if bits.size:
                case.buffer(name, bits.reshape(before.shape), kind)
        key = (hashlib.sha256(case.ptx.encode()).hexdigest(), json.dumps(case.launch["grid"]), self.library)
        again = key in self.seen
        case.name = f"{self.library}/{self.recipe}.{entry[:60]}{'' if self.count == 0 else f'.{self.count}'}"
        self.count += 1
        case.about.update(self.about, library=self.library, recipe=self.recipe)
        folder = os.path.join(self.out, "again") if again else self.out
        self.pending = (case.write(folder), tensors)
        if not again:
            self.seen[key] = case.name
            self.log.append(case.name)
            print(f"  {case.name} grid {case.launch['grid']} block {case.launch['block'][0]} shared {case.launch['dynamicSmem']}", flush=True)

    def settle(self):
        """Let the emulator run the launch before this one, and take over what it wrote."""
        if self.pending is None:
            return
        folder, tensors = self.pending
        self.pending = None
        with open(os.path.join(folder, "launch.json"), encoding="utf-8") as file:
            launch = json.load(file)
        launch["outputs"] = {name: f"out_{name}.npy" for name, tensor in tensors.items() if tensor.numel()}
        for buffer in launch["buffers"].values():
            # .npy has no such types: numbers of them would be written as f32.
            buffer["dtype"] = {"bf16": "u16", "e4m3": "u8", "e5m2": "u8"}.get(buffer["dtype"], buffer["dtype"])
        path = os.path.join(folder, "settle.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(launch, file)
        try:
            subprocess.run([*EMULATE, os.path.join(folder, "kernel.ptx"), "--launch", path, "--check", "none", "--quiet"], capture_output=True, timeout=90)
        except subprocess.TimeoutExpired:
            print("    (emulator: no end in 90 s)")
        os.remove(path)
        for name, tensor in tensors.items():
            made = os.path.join(folder, f"out_{name}.npy")
            if not os.path.exists(made):
                continue
            raw = np.load(made).view(np.uint8).reshape(-1)
            os.remove(made)
            with torch.no_grad():
                tensor.view(torch.uint8)[: raw.size].copy_(torch.from_numpy(raw.copy()))


def main():
    sources, out, *wanted = sys.argv[1:]
    with open(os.path.join(os.path.dirname(__file__), "sources.json"), encoding="utf-8") as file:
        known = json.load(file)
    recorder = Recorder(out, sources)
    triton_capture.install(recorder)
    torch.manual_seed(0)
    for module in ("usual", "liger", "attorch_layers", "gems", "fla_ops"):
        only = [one.split(":")[1] for one in wanted if one.startswith(module + ":")]
        if wanted and module not in wanted and not only:
            continue
        recipes = importlib.import_module(f"recipes.{module}")
        source = known.get(getattr(recipes, "SOURCE", ""), None)
        if source:
            sys.path.insert(0, os.path.join(sources, recipes.SOURCE.replace("/", "+"), source.get("python", "")))
        for name, call in recipes.recipes().items():
            if only and name not in only:
                continue
            print(f"{module}:{name}", flush=True)
            torch.manual_seed(7)
            recorder.start(module, name, {"source": source and {key: source[key] for key in ("repository", "commit", "licence")}})
            Launcher.labels = {"library": module, "recipe": name}
            start = time.time()
            try:
                call()
            except Exception as error:
                text = traceback.format_exc().strip().split("\n")
                print(f"  ! {type(error).__name__}: {str(error)[:300]} {text[-3].strip()[:150]} {text[-2].strip()[:150]}", flush=True)
            if time.time() - start > 20:
                print(f"  ({time.time() - start:.0f} s)")
    print(f"{len(recorder.log)} cases")


main()
