//! The kernel itself, for records of what is asked of it.

use twin::tree::Node;

use crate::driver::{Driver, Map, Result};
use crate::system;

/// See the front page.
pub struct Host;

/// Files that are written down.
const DEVICES: [&str; 3] = ["/dev/nvidia", "/dev/kfd", "/dev/dri/"];

impl Driver for Host {
    fn owns(&self, path: &str) -> bool {
        self.is_device(path)
    }

    fn nodes(&self) -> Vec<(String, Node)> {
        Vec::new()
    }

    fn is_device(&self, path: &str) -> bool {
        DEVICES.iter().any(|device| path.starts_with(device))
    }

    fn open(&self, path: &str, flags: i32) -> Result<i32> {
        system::open(path, flags)
    }

    fn duplicated(&self, _: i32, _: i32) {}

    fn closing(&self, _: i32) {}

    fn ready(&self, _: i32) -> bool {
        true
    }

    fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result<i32> {
        system::ioctl(fd, request, argument)
    }

    fn mmap(&self, fd: i32, map: Map) -> Result<u64> {
        system::mmap(fd, map)
    }

    fn munmap(&self, _: u64, _: u64) -> Result<bool> {
        Ok(false)
    }

    fn version(&self) -> Option<String> {
        if let Ok(text) = std::fs::read_to_string("/sys/module/nvidia/version") {
            return Some(text.trim().to_owned());
        }
        // Sandboxes may have only this: "NVRM version: NVIDIA UNIX ... Kernel Module  580.65.06  ...".
        let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
        let version =
            |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
        text.split_whitespace().find(version).map(str::to_owned)
    }

    fn broken(&self) -> Vec<String> {
        Vec::new()
    }

    fn finish(&self) {}
}
