//! Results of CUDA's driver interface.
//!
//! Source: NVIDIA, CUDA Driver API Reference Manual 12.4, `CUresult`.

/// What to do about a result.
pub(crate) fn hint(code: i32) -> &'static str {
    match code {
        _ if is_sticky(code) => {
            "CUDA's context is lost for this process: restart the program. DEV=NV gives each device a context of its own"
        }
        3 | 4 => {
            "CUDA was started before this process was forked, or ends with it: open devices in the process that uses them"
        }
        2 => "Free tensors or use a smaller batch; `nvidia-smi` shows who uses the memory",
        34 => {
            "This libcuda.so.1 is the stub of a toolkit: take its folder out of LD_LIBRARY_PATH, and install NVIDIA's driver"
        }
        46 => {
            "The GPU is in an exclusive compute mode and in use: `nvidia-smi -c DEFAULT`, or end the other program"
        }
        100 => {
            "CUDA finds no GPU: see `nvidia-smi` and the variable CUDA_VISIBLE_DEVICES; in a container, pass the GPU in"
        }
        200 | 209 | 218 | 222 | 223 => {
            "The code is not for this GPU or driver: update NVIDIA's driver, or set CUDA_PATH to an older toolkit"
        }
        701 => {
            "The launch needs more registers or shared memory than a group has: report the kernel"
        }
        712 => {
            "These pages, or a part of them, are registered with CUDA already: import all of them at once, or copy"
        }
        802 => "Start the fabric manager: `sudo systemctl start nvidia-fabricmanager`",
        803 => "Kernel module and libcuda are of different versions: restart the machine",
        804 => "The compatibility library is for data-center GPUs: remove it from LD_LIBRARY_PATH",
        999 => {
            "See `sudo dmesg | grep -e NVRM -e Xid`; `sudo nvidia-modprobe -c 0 -u` makes missing device files"
        }
        _ => "See `doorbell doctor`; DEV=NV uses the GPU without CUDA",
    }
}

/// Whether every later call of the process fails with it.
pub(crate) const fn is_sticky(code: i32) -> bool {
    // Uncorrectable errors of memory and of NVLink; faults of kernels.
    matches!(code, 214 | 220 | 700 | 702 | 709 | 710 | 714..=719 | 721)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_kernel_is_for_good_and_others_are_not() {
        for code in [700, 716, 719] {
            assert!(is_sticky(code) && hint(code).contains("restart the program"));
        }
        for code in [1, 2, 100, 201, 600, 701, 712, 801] {
            assert!(!is_sticky(code) && !hint(code).contains("restart the program"));
        }
    }
}
