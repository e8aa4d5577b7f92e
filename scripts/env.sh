# Source this in scripts, or before calling cargo by hand: sets the location of LLVM 22, and puts
# rustup's cargo on the PATH if it is not there.
export LLVM_SYS_221_PREFIX="${LLVM_SYS_221_PREFIX:-/usr/lib/llvm-22}"
if ! command -v cargo > /dev/null 2>&1 && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi
