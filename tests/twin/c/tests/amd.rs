//! The C interface, called as C does, on GPUs of AMD.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use doorbell_twin::*;
use drivers_spec::amd::kfd;

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

#[test]
fn a_session_in_c() {
    let mut error = [0 as c_char; 128];
    // SAFETY: everything that is passed is what the header asks for, and lives as long as it says.
    unsafe {
        let wrong = doorbell_twin_new(c("gpus=99").as_ptr(), error.as_mut_ptr(), error.len());
        assert!(wrong.is_null());
        let text = std::ffi::CStr::from_ptr(error.as_ptr()).to_str().unwrap();
        assert_eq!(text, "gpus=99: expected 0 to 16");

        let twin = doorbell_twin_new(c("gpus=2").as_ptr(), ptr::null_mut(), 0);
        let process = doorbell_twin_attach(twin);
        assert_eq!(doorbell_twin_exists(process, c("/dev/kfd").as_ptr()), 1);
        assert_eq!(doorbell_twin_exists(process, c("/dev/null").as_ptr()), 0);
        assert_eq!(
            doorbell_twin_open(process, c("/dev/null").as_ptr(), 0),
            -libc::ENOENT
        );
        let kfd = doorbell_twin_open(process, c("/dev/kfd").as_ptr(), libc::O_RDWR);
        assert_eq!(kfd, 1 << 30);
        let mut version = kfd::GetVersionArgs::default();
        let argument = (&raw mut version).cast::<c_void>();
        assert_eq!(
            doorbell_twin_ioctl(process, kfd, kfd::GET_VERSION.request.into(), argument),
            0
        );
        assert_eq!((version.major_version, version.minor_version), (1, 17));
        let bad = doorbell_twin_ioctl(
            process,
            kfd,
            kfd::GET_VERSION.request.into(),
            ptr::null_mut(),
        );
        assert_eq!(bad, -libc::EFAULT);

        let nodes = c("/sys/class/kfd/kfd/topology/nodes");
        let folder = doorbell_twin_open(process, nodes.as_ptr(), libc::O_DIRECTORY);
        let mut names = [0u8; 64];
        let length = doorbell_twin_readdir(process, folder, names.as_mut_ptr().cast(), names.len());
        assert_eq!(&names[..length as usize], b"0\n1\n2\n");
        assert_eq!(
            doorbell_twin_readdir(process, folder, names.as_mut_ptr().cast(), 1),
            6
        );
        let file = doorbell_twin_open(process, c("/sys/module/amdgpu/initstate").as_ptr(), 0);
        assert_eq!(
            doorbell_twin_read(process, file, names.as_mut_ptr().cast(), 3, 1),
            3
        );
        assert_eq!(&names[..3], b"ive");
        assert_eq!(
            doorbell_twin_read(process, file, ptr::null_mut(), 3, 0),
            -(libc::EFAULT as isize)
        );
        assert_eq!(
            doorbell_twin_read(process, file, names.as_mut_ptr().cast(), 3, -1),
            -(libc::EINVAL as isize)
        );

        let (protection, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let at = doorbell_twin_mmap(process, ptr::null_mut(), 0x1000, protection, shared, kfd, 0);
        assert_eq!(at as isize, -(libc::ENODEV as isize));
        let mut id = [0u8; 16];
        let gpu = doorbell_twin_open(
            process,
            c("/sys/class/kfd/kfd/topology/nodes/2/gpu_id").as_ptr(),
            0,
        );
        let length = doorbell_twin_read(process, gpu, id.as_mut_ptr().cast(), id.len(), 0) as usize;
        let gpu_id: u64 = std::str::from_utf8(&id[..length])
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let offset = (3 << 62 | gpu_id << 46) as i64;
        let at = doorbell_twin_mmap(
            process,
            ptr::null_mut(),
            0x2000,
            protection,
            shared,
            kfd,
            offset,
        );
        assert!((at as isize) > 0);
        at.cast::<u64>().write_volatile(1);
        assert_eq!(doorbell_twin_munmap(process, at, 0x2000), 0);
        assert_eq!(
            doorbell_twin_munmap(process, at.byte_add(1), 0x2000),
            -libc::EINVAL
        );

        assert_eq!(doorbell_twin_broken(twin), 0);
        assert_eq!(
            doorbell_twin_ioctl(process, kfd, 0x4b77, ptr::null_mut()),
            -libc::ENOTTY
        );
        assert_eq!(doorbell_twin_broken(twin), 1);
        let mut report = [0u8; 40];
        let bytes = doorbell_twin_report(twin, 0, report.as_mut_ptr().cast(), report.len());
        assert!(bytes > 40 && report.starts_with(b"rule KFD-UNKNOWN-IOCTL") && report[39] == 0);
        assert_eq!(doorbell_twin_report(twin, 1, ptr::null_mut(), 0), 0);

        assert_eq!(doorbell_twin_close(process, kfd), 0);
        assert_eq!(doorbell_twin_close(process, kfd), -libc::EBADF);
        assert_eq!(
            doorbell_twin_open(ptr::null(), c("/dev/kfd").as_ptr(), 0),
            -libc::EFAULT
        );
        assert_eq!(doorbell_twin_open(process, ptr::null(), 0), -libc::EFAULT);
        doorbell_twin_detach(process);
        doorbell_twin_free(twin);
        doorbell_twin_detach(ptr::null_mut());
        doorbell_twin_free(ptr::null_mut());
    }
}
