# Source this in scripts that build for AArch64, after scripts/env.sh: fetches a compiler, libraries and QEMU of Debian's sid into
# target/cross (scripts/fetch cross), and has cargo use them with `--target $target`. $cross is the folder, $host what there is for
# this machine. It is a newer rustc than the pinned one, so nothing is linted with it.
scripts/fetch cross
cross=$PWD/target/cross
host=$cross/host/usr
target=aarch64-unknown-linux-gnu
[ -e "$host/lib/rustlib/$target" ] || ln -sfn "$cross/arm64/usr/lib/rustlib/$target" "$host/lib/rustlib/$target"
# Another script may be using them.
program() {
    mkdir -p "${1%/*}"
    cat > "$1.$$"
    chmod +x "$1.$$"
    mv "$1.$$" "$1"
}
# Other shells drop variables with a hyphen in their name: CARGO_BIN_EXE_doorbell-run.
program "$cross/bin/rustc" << END
#!/bin/bash
exec $host/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path $host/lib/x86_64-linux-gnu $host/bin/rustc --sysroot $host "\$@"
END
program "$cross/bin/link/cc" << END
#!/bin/sh
exec clang-22 --target=aarch64-linux-gnu --sysroot=$cross/arm64 -fuse-ld=lld "\$@"
END
# What tests call cc: clang, or clang up to LLVM's assembly and LLVM's program from there. The object is the last argument.
program "$cross/bin/clang/cc" << END
#!/bin/sh
exec clang-22 --target=aarch64-linux-gnu "\$@"
END
program "$cross/bin/llvm/cc" << END
#!/bin/bash
set -e
clang-22 --target=aarch64-linux-gnu -emit-llvm "\$@"
llc-22 -relocation-model=pic -filetype=obj "\${!#}" -o "\${!#}.o"
mv "\${!#}.o" "\${!#}"
END
program "$cross/bin/run" << END
#!/bin/sh
PATH=$cross/bin/\${CROSS_CC:-clang}:\$PATH exec $host/bin/qemu-aarch64 -L $cross/arm64 "\$@"
END
# The lints are those of the pinned compiler.
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
export RUSTC=$cross/bin/rustc CARGO_TARGET_DIR=$cross/target CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
# What is built of these has the same features, whichever of them it is, so that scripts build each crate once. cargo tests build it: their
# crates have the features that tests need. `file` has it build the program doorbell-run, `preload` the library that is preloaded, in deps.
packages=(--locked --target "$target" --no-default-features -p hcq -p drivers-cpu -p tensor -p doorbell-run -p twin-preload)
# What is built takes longer than what is run.
export CARGO_PROFILE_DEV_OPT_LEVEL=0
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cross/bin/link/cc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$cross/bin/run

