# Sourced by the other scripts, and by anyone who calls cargo by hand: where LLVM 22 is, and cargo
# if rustup put it where no shell was told.
export LLVM_SYS_221_PREFIX="${LLVM_SYS_221_PREFIX:-/usr/lib/llvm-22}"
if ! command -v cargo > /dev/null 2>&1 && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi
