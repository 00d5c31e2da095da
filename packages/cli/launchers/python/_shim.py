"""shim.c, compiled once into the user's cache: $XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright.

Where there is no C compiler, no Python.h, no folder that is the user's alone, or with TILEWRIGHT_SHIM=0, launches go through Python
alone and do the same. state() says which, and why.
"""
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time

_RETRY = 24 * 3600  # seconds until a compiler that failed is asked again
_lock = threading.Lock()
_found = None  # the module or None, and why


class _Unfit(Exception):
    """Why there is no shim."""


def _cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(home, "tilewright")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    info = os.stat(folder)
    # What is loaded from here runs: nobody else may write it.
    if info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise _Unfit("%s can be written by others" % folder)
    return folder


def _compiler():
    words = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    for name in (words[0] if words else "cc", "cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return found
    raise _Unfit("there is no C compiler")


def _compile(source, path):
    """The shared library at path, whole or not at all: processes that begin at once all write the same."""
    include = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise _Unfit("%s has no Python.h" % include)
    log = path + ".log"
    if os.path.exists(log) and time.time() - os.stat(log).st_mtime < _RETRY:
        raise _Unfit("the compiler failed: %s" % log)
    made = "%s.%d" % (path, os.getpid())
    command = [_compiler(), "-O2", "-shared", "-fPIC", "-I", include, source, "-o", made]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        if done.returncode != 0:
            with open(log, "wb") as file:
                file.write(done.stdout)
            raise _Unfit("the compiler failed: %s" % log)
        os.replace(made, path)
    finally:
        if os.path.exists(made):
            os.unlink(made)


def _load():
    if os.environ.get("TILEWRIGHT_SHIM") == "0":
        raise _Unfit("TILEWRIGHT_SHIM=0")
    free = sysconfig.get_config_var("Py_GIL_DISABLED")
    if not sys.platform.startswith("linux") or sys.implementation.name != "cpython" or sys.version_info < (3, 10) or free:
        raise _Unfit("it is for CPython 3.10 or later with its lock, on Linux")
    folder = os.path.dirname(os.path.abspath(__file__))
    texts = []
    for name in ("shim.c", "shim_launch.h"):
        with open(os.path.join(folder, name), "rb") as file:
            texts.append(file.read())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    key = hashlib.sha256(b"\0".join([*texts, sys.version.encode(), suffix.encode()])).hexdigest()[:16]
    path = os.path.join(_cache(), "shim-%s%s" % (key, suffix))
    if not os.path.exists(path):
        _compile(os.path.join(folder, "shim.c"), path)
    if os.stat(path).st_uid != os.geteuid():
        raise _Unfit("%s is another user's" % path)
    loader = importlib.machinery.ExtensionFileLoader("shim", path)
    made = importlib.util.module_from_spec(importlib.util.spec_from_file_location("shim", path, loader=loader))
    loader.exec_module(made)
    return made


def module():
    """The compiled module, or None."""
    global _found
    if _found is None:
        with _lock:
            if _found is None:
                try:
                    _found = _load(), None
                except (_Unfit, OSError, ImportError, subprocess.SubprocessError) as reason:
                    _found = None, str(reason)
    return _found[0]


def state():
    """`compiled`, or why not."""
    return "compiled" if module() is not None else _found[1]
