//! The log of the vendor's kernel driver: what the tracepoints `amdgpu_device_rreg` and `amdgpu_device_wreg` print, as
//! `trace-cmd report`, `perf script` or `/sys/kernel/tracing/trace` have it.
//!
//! ```text
//! modprobe-412 [002] 71.204831: amdgpu_device_wreg:   0x744c, 0x0000c063, 0x00000010
//! ```
//!
//! The device, the register in dwords, its value.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_trace.h; amdgpu_device.c, `amdgpu_device_rreg`.

use super::chips::{AMD, named};
use super::diff::Step;
use super::names::Names;

/// Whether a text is such a log.
pub fn is_one(text: &str) -> bool {
    text.contains("amdgpu_device_wreg:") || text.contains("amdgpu_device_rreg:")
}

/// The accesses of a log, with names from a recording of the same card. Lines of other tracepoints are left out.
///
/// # Errors
/// The number of the first line, from 1, whose access cannot be read.
pub fn steps(text: &str, names: &Names) -> Result<Vec<Step>, usize> {
    let mut steps = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let found = ["rreg", "wreg"].into_iter().find_map(|kind| {
            let (_, rest) = text.split_once(&*format!("amdgpu_device_{kind}:"))?;
            Some((kind == "wreg", rest))
        });
        let Some((is_write, rest)) = found else {
            continue;
        };
        let mut numbers = rest.split(',').map(|word| {
            let digits = word.trim().strip_prefix("0x")?;
            u64::from_str_radix(digits, 16).ok()
        });
        let mut next = || numbers.next().flatten();
        let (Some(_), Some(dword), Some(value)) = (next(), next(), next()) else {
            return Err(line);
        };
        let (what, stage, message) = names.register(dword * 4, value);
        steps.push(Step {
            line,
            stage,
            what,
            is_write,
            value: Some(value),
            message,
            times: 1,
        });
    }
    Ok(steps)
}

/// The chips of a log, each once: the device stands before each register.
pub fn chips(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        let device = line.split_once("amdgpu_device_").and_then(|(_, rest)| {
            let (_, rest) = rest.split_once(':')?;
            let digits = rest.split(',').next()?.trim().strip_prefix("0x")?;
            u16::from_str_radix(digits, 16).ok()
        });
        let chip = device.map(|device| named([AMD, device]));
        found.extend(chip.filter(|chip| !found.contains(chip)));
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tracepoints_are_read() {
        let log = "\
            # tracer: nop\n\
            modprobe-412 [002] ..... 71.204831: amdgpu_device_wreg: 0x744c, 0x0000c063, 0x00000010\n\
            modprobe-412 [002] ..... 71.204840: amdgpu_device_rreg: 0x744c, 0x00000002, 0xffffffff\n\
            modprobe-412 [002] ..... 71.204841: amdgpu_iv: ih:0\n";
        assert!(is_one(log));
        assert_eq!(chips(log), ["gfx1100 (Navi 31, 1002:744c)"]);
        let steps = steps(log, &Names::default()).unwrap();
        let told: Vec<_> = steps
            .iter()
            .map(|s| (s.line, &*s.what, s.is_write, s.value))
            .collect();
        assert_eq!(
            told,
            [
                (2, "register 0x3018c", true, Some(0x10)),
                (3, "register 0x8", false, Some(0xffff_ffff)),
            ]
        );
        assert_eq!(
            super::steps("a: amdgpu_device_wreg: 0x1, 2", &Names::default()),
            Err(1)
        );
    }
}
