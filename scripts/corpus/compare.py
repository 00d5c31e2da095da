"""Hold the emulator's bits against the GPU's: python compare.py CASES EMULATED GPU… [--details] [--csv FILE]; EMULATED is run.py's OUT, GPU replay.py's.

A buffer counts where the GPU gives it alike three times. `same` is the bits of the kernel as ptxas assembles it by default, `nofma`
those without contraction of mul and add, which PTX leaves to the assembler.
"""
import argparse
import csv
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np

BITS = {"alike": "identical", "nofma": "identical without contraction", "differs": "different", "varies": "varies on the GPU", "not run": "no buffers", "GPU failed": "no end on the GPU"}
WIDTHS = {"f16": ("<u2", "<f2"), "bf16": ("<u2", None), "f32": ("<u4", "<f4"), "f64": ("<u8", "<f8")}


def rows(path):
    with open(path, encoding="utf-8") as file:
        return {row["case"]: row for row in map(json.loads, file)}


def difference(kind, ours, theirs):
    """Elements that differ, and the largest distance in representable values where the type is a float."""
    width = WIDTHS.get(kind, ("|u1", None))[0]
    if kind[1:] in ("16", "32", "64") and kind not in WIDTHS:
        width = f"<u{int(kind[1:]) // 8}"
    a, b = ours.view(width), theirs.view(width)
    differ = int((a != b).sum())
    if kind not in WIDTHS or differ == 0:
        return {"elements": int(a.size), "differ": differ}
    bits = np.dtype(width).itemsize * 8
    signed = lambda x: np.where(x >> (bits - 1), -(x & ((1 << (bits - 1)) - 1)).astype(np.int64), x.astype(np.int64))
    far = np.abs(signed(a.astype(np.uint64)) - signed(b.astype(np.uint64)))
    at = int(np.argmax(a != b))
    return {"elements": int(a.size), "differ": differ, "ulp": int(far.max()), "first": at, "ours": hex(int(a[at])), "gpu": hex(int(b[at]))}


def judge(case, folder, emulated, gpu, gpu_out, emu_out):
    """What is to be said of a case: alike | nofma | differs | varies | unchanged | no bits."""
    with open(os.path.join(folder, "launch.json"), encoding="utf-8") as file:
        launch = json.load(file)
    ours_path = os.path.join(emu_out, case.replace("/", "__") + ".npz")
    if gpu is None:
        return {"bits": "no GPU run"}
    if "error" in gpu:
        return {"bits": "GPU failed", "error": gpu["error"]}
    if not os.path.exists(ours_path):
        return {"bits": "not run"}
    ours = np.load(ours_path)
    theirs_path = os.path.join(gpu_out, case.replace("/", "__") + ".npz")
    theirs = np.load(theirs_path) if os.path.exists(theirs_path) else {}
    found, varies, per = [], [], {}
    for name, spec in launch.get("buffers", {}).items():
        if name not in ours:
            continue
        states = {}
        for mode in ("default", "nofma"):
            said = gpu["modes"].get(mode, {}).get("buffers", {}).get(name)
            if said is None:
                continue
            if not said["alike"]:
                states[mode] = "varies"
                continue
            if not said["changed"]:
                bits = initial(folder, spec)
            elif f"{mode}.{name}" in theirs:
                bits = theirs[f"{mode}.{name}"]
            else:
                bits = theirs[f"default.{name}"]
            states[mode] = difference(spec.get("dtype", "u8"), ours[name], bits)
        per[name] = states
        if not states or "varies" in states.values():
            varies.append(name)
            continue
        if states["default"]["differ"] == 0:
            found.append("alike")
        elif states.get("nofma", {}).get("differ") == 0:
            found.append("nofma")
        else:
            found.append("differs")
    worst = "differs" if "differs" in found else "nofma" if "nofma" in found else "alike" if found else "varies"
    wrong = {name: states for name, states in per.items() if any(isinstance(one, dict) and one["differ"] for one in states.values())}
    return {"bits": worst, "varies": varies, "wrong": wrong}


def initial(folder, spec):
    from replay import load_buffer

    return np.frombuffer(load_buffer(folder, spec), dtype=np.uint8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("emulated")
    parser.add_argument("gpu", nargs="+")
    parser.add_argument("--details", action="store_true")
    parser.add_argument("--csv", help="a line for each launch (data/results.csv)")
    args = parser.parse_args()
    emulated = rows(os.path.join(args.emulated, "results.jsonl"))
    found = []
    gpus = [(out, rows(os.path.join(out, "results.jsonl"))) for out in args.gpu]
    for case, row in sorted(emulated.items()):
        folder = os.path.join(args.cases, case)
        out, gpu = next(((out, known[case]) for out, known in reversed(gpus) if case in known), (args.gpu[0], None))
        said = judge(case, folder, row, gpu, out, args.emulated)
        found.append({**row, **said, "gpu": (gpu or {}).get("gpu", "")})
        if args.details and said["bits"] not in ("alike", "no GPU run"):
            print(case, said["bits"], {name: {mode: one if isinstance(one, str) else [one["differ"], one["elements"], one.get("ulp"), one.get("ours"), one.get("gpu")] for mode, one in states.items()} for name, states in said.get("wrong", {}).items()})
    table = {}
    for row in found:
        kind = row["case"].split("/")[0]
        line = table.setdefault(kind, {})
        for key in ("all", row["state"], "bits " + row["bits"], *(["findings"] if any(one["severity"] != "note" for one in row.get("findings", [])) else [])):
            line[key] = line.get(key, 0) + 1
    for kind, line in table.items():
        print(kind, line)
    if args.csv:
        with open(args.csv, "w", encoding="utf-8", newline="") as file:
            write = csv.writer(file, lineterminator="\n").writerow
            write(["case", "sha256 of the PTX", "compiler", "state", "bits", "buffers that vary on the GPU", "buffers that depend on the order", "errors", "notes", "ms", "GPU"])
            for row in found:
                with open(os.path.join(args.cases, row["case"], "about.json"), encoding="utf-8") as about:
                    about = json.load(about)
                rules = lambda notes: " ".join(sorted({one["rule"] for one in row.get("findings", []) if (one["severity"] == "note") == notes}))
                write([row["case"], about["sha256"], about["compiler"], row["state"], BITS.get(row["bits"], row["bits"]), " ".join(row.get("varies", [])), " ".join(row.get("differing") or []), rules(False), rules(True), row.get("ms", ""), " ".join(re.findall(r"[A-Z]+\d+", row["gpu"])[:1])])


if __name__ == "__main__":
    main()
