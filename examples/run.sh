#!/bin/sh
# Every client of this folder on this machine's GPU but inductor, which takes minutes: compiles what they launch, runs them, and prints a table last.
#   examples/run.sh [TILEWRIGHT]    the command line to use, for instance that of the portable bundle; npx tilewright unless given
# PYTHON names another python3. What a client needs and is absent (gcc, torch, cupy, the npm packages) is said and skipped.
# Exit code 1 if one failed, 4 without a GPU.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P) || exit 1
case ${1:-} in
  '') tilewright="npx --prefix $here/.. tilewright" ;;
  */*) tilewright=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd -P)/$(basename -- "$1") ;;
  *) tilewright=$1 ;;
esac
python=${PYTHON:-python3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0
failed=0
row() { printf '%-28s %-8s %s\n' "$1" "$2" "$3" >>table; }
client() { # name, command: a row with the last line that it said
  name=$1
  shift
  "$@" >said 2>&1
  code=$?
  printf '== %s\n' "$name"
  cat said
  if [ $code -eq 0 ]; then passed=$((passed + 1)) && row "$name" ok "$(tail -n 1 said)"; else
    failed=$((failed + 1))
    row "$name" FAILED "exit code $code: $(tail -n 1 said)"
  fi
  return $code
}

client "compile" $tilewright compile --library out --kernels "$here/library.json" || exit 1
client "plain Python" "$python" "$here/python/call.py" out
if [ $code -eq 4 ]; then exit 4; fi
if command -v gcc >/dev/null; then
  client "C, gcc" gcc -std=c99 -O2 -Wall -Wextra -I out -o client "$here/c/main.c" -ldl && client "C" ./client out
else row "C" skipped "no gcc"; fi
client "attention, compile" $tilewright compile --library heads --kernels "$here/attention/library.json" && "$python" "$here/attention/data.py" data || exit 1
if command -v gcc >/dev/null; then
  client "attention, gcc" gcc -std=c99 -O2 -Wall -Wextra -I heads -o heads-c "$here/attention/client.c" -ldl -lm && client "attention, C" ./heads-c heads data
fi
if command -v g++ >/dev/null; then
  client "attention, g++" g++ -std=c++17 -O2 -Wall -Wextra -I heads -o heads-cpp "$here/attention/client.cpp" -ldl && client "attention, C++" ./heads-cpp heads data
fi
if command -v gcc >/dev/null && command -v rustc >/dev/null; then
  cp "$here/attention/client.rs" heads
  gcc -O2 -c -o heads.o heads/heads.c
  client "attention, rustc" rustc -O --edition 2021 -C link-arg=heads.o -o heads-rs heads/client.rs && client "attention, Rust" ./heads-rs heads data
fi
if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  # sm_80: mma.sync kernels; sm_90a: wgmma, where the GPU has it; the third takes what fits best.
  for arch in sm_80 sm_90a sm_80,sm_90a; do
    if [ $arch = sm_90a ] && ! "$python" -c 'import sys, torch; sys.exit(torch.cuda.get_device_capability() != (9, 0))'; then continue; fi
    client "PyTorch, compile $arch" $tilewright compile --library "torch-$arch" --kernels "$here/pytorch/library.json" --arch $arch --wheel &&
      client "PyTorch, $arch" "$python" "$here/pytorch/linear_gelu.py" "torch-$arch"
  done
  client "wheel, compile" $tilewright compile --library wheel --kernels "$here/../packages/cli/test/library/python/linear.json" --wheel &&
    client "wheel, checks" "$python" "$here/../packages/cli/test/library/python/wheel_gpu.py" wheel
else row "PyTorch" skipped "$python has no torch with CUDA"; fi
if "$python" -c 'import cupy' 2>/dev/null; then
  client "CuPy, compile" $tilewright compile --arch sm_80 -m 512 -n 384 -k 256 --dtype f32 --schedule split=1 -o raw &&
    client "CuPy RawModule" "$python" "$here/cupy/raw_module.py" raw/*.gemm.json
else row "CuPy RawModule" skipped "$python has no cupy"; fi
if command -v node >/dev/null && [ -d "$here/../node_modules/@tilewright/runtime/dist" ]; then
  cp "$here/node/server.mjs" "$here/attention/client.mjs" . && echo '{"type":"module"}' >package.json && ln -s "$here/../node_modules" node_modules
  client "attention, JavaScript" node client.mjs heads data
  node server.mjs out 0 >server.out 2>&1 &
  server=$!
  cat >ask.py <<'P'
import re, struct, sys, time, urllib.request
for _ in range(100):
    found = re.search(r"(.*) on port (\d+)", open("server.out").read())
    if found:
        break
    time.sleep(0.1)
else:
    sys.exit("the server does not start: " + open("server.out").read())
body = struct.pack("<e", 1) * (128 * 192)
answer = urllib.request.urlopen("http://localhost:%s/linear_gelu" % found[2], body, timeout=60).read()
wrong = sum(not 3.497 < value < 3.501 for value in struct.unpack("<%de" % (128 * 256), answer))
print("%s: %d of %d elements wrong" % (found[1], wrong, 128 * 256))
sys.exit(wrong != 0 or "emulator" in found[1])
P
  client "Node server" "$python" ask.py
  kill $server 2>/dev/null
else row "Node server" skipped "no node, or the packages are not built"; fi
echo
cat table
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
