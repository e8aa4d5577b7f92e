//! The C interface, called as C does, on GPUs of NVIDIA.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use doorbell_twin::*;
use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::{class, escape, status};

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// An escape of branch 580, whose request has the size of its argument.
fn call<T: Struct>(process: *const TwinProcess, fd: i32, number: u32, args: &mut T) -> i32 {
    let mut bytes = args.encode(Branch::R580);
    let request = 3 << 30 | (bytes.len() as u32) << 16 | u32::from(b'F') << 8 | number;
    // SAFETY: the process lives; the argument is as long as the request says.
    let done = unsafe {
        let argument = bytes.as_mut_ptr().cast::<c_void>();
        doorbell_twin_ioctl(process, fd, request.into(), argument)
    };
    *args = T::decode(Branch::R580, &bytes).unwrap();
    done
}

#[test]
fn a_session_in_c() {
    // SAFETY: everything that is passed is what the header asks for, and lives as long as it says.
    unsafe {
        let mut error = [0 as c_char; 128];
        let wrong = doorbell_twin_new(c("chip=gb202,driver=550").as_ptr(), error.as_mut_ptr(), 128);
        assert!(wrong.is_null());
        let text = CStr::from_ptr(error.as_ptr()).to_str().unwrap();
        assert!(
            text.starts_with("chip=gb202: expected a driver of branch 570"),
            "{text}"
        );

        let twin = doorbell_twin_new(c("chip=ad102").as_ptr(), ptr::null_mut(), 0);
        let process = doorbell_twin_attach(twin);
        let open = |path: &str| doorbell_twin_open(process, c(path).as_ptr(), libc::O_RDWR);
        assert_eq!(doorbell_twin_exists(process, c("/dev/nvidia0").as_ptr()), 1);
        assert_eq!(doorbell_twin_exists(process, c("/dev/kfd").as_ptr()), 0);
        let (ctl, gpu) = (open("/dev/nvidiactl"), open("/dev/nvidia0"));
        let mut root = escape::Alloc {
            h_class: class::NV01_ROOT_CLIENT.number,
            ..Default::default()
        };
        assert_eq!(call(process, ctl, escape::RM_ALLOC.number, &mut root), 0);
        assert_eq!(root.status, status::NV_OK);
        let again = doorbell_twin_dup(process, ctl);
        assert_eq!(doorbell_twin_close(process, ctl), 0);
        let mut free = escape::Free {
            h_root: root.h_object_new,
            h_object_old: root.h_object_new,
            ..Default::default()
        };
        assert_eq!(call(process, again, escape::RM_FREE.number, &mut free), 0);
        assert_eq!(free.status, status::NV_OK);
        assert_eq!(doorbell_twin_ready(process, gpu), 0);
        let mut left = [0_u8; 128];
        let bytes = doorbell_twin_objects(process, left.as_mut_ptr().cast(), left.len());
        let left = std::str::from_utf8(&left[..bytes]).unwrap();
        let files: Vec<&str> = left
            .lines()
            .filter_map(|line| line.split(',').next())
            .collect();
        assert_eq!(files, ["file /dev/nvidia0", "file /dev/nvidiactl"]);
        let mut text = [0_u8; 64];
        let version = open("/sys/module/nvidia/version");
        let bytes = doorbell_twin_read(process, version, text.as_mut_ptr().cast(), 64, 4);
        assert_eq!(&text[..bytes as usize], b"142\n");

        // Nothing is to be mapped yet: a rule, and its report.
        assert_eq!(doorbell_twin_broken(twin), 0);
        let at = doorbell_twin_mmap(process, ptr::null_mut(), 4096, 3, 1, gpu, 0);
        assert_eq!(at as isize, -(libc::EINVAL as isize));
        let bytes = doorbell_twin_report(twin, 0, text.as_mut_ptr().cast(), text.len());
        assert!(bytes > 64 && text.starts_with(b"rule NV-MMAP-CONTEXT (Sourced;"));
        doorbell_twin_detach(process);
        doorbell_twin_free(twin);
    }
}
