//! Results of HIP.
//!
//! Source: AMD, HIP API Reference 6.4, `hipError_t`.

/// What to do about a result.
pub(crate) fn hint(code: i32) -> &'static str {
    match code {
        _ if is_sticky(code) => {
            "HIP is lost for this process: restart the program; `sudo dmesg | grep amdgpu` has the kernel's reason"
        }
        3 | 4 => {
            "HIP was started before this process was forked, or ends with it: open devices in the process that uses them"
        }
        2 => "Free tensors or use a smaller batch; `rocm-smi` shows who uses the memory",
        100 | 101 => {
            "HIP finds no such GPU: your user needs the group render (`sudo usermod -aG render $USER`); see HIP_VISIBLE_DEVICES and \
             `doorbell doctor`"
        }
        98 | 200 | 209 => {
            "The code is not for this GPU, or this ROCm is too old for it: update ROCm, or use DEV=AMD, which needs none"
        }
        712 => {
            "These pages, or a part of them, are registered with HIP already: import all of them at once, or copy"
        }
        _ => "See `doorbell doctor`; DEV=AMD uses the GPU without HIP",
    }
}

/// Whether every later call of the process fails with it.
pub(crate) const fn is_sticky(code: i32) -> bool {
    matches!(code, 214 | 700 | 702 | 709 | 710 | 719)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_kernel_is_for_good_and_others_are_not() {
        assert!(is_sticky(719) && hint(719).contains("restart the program"));
        assert!(!is_sticky(2) && hint(100).contains("render"));
        assert!(hint(1).contains("DEV=AMD"));
    }
}
