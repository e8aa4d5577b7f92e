//! The twin as a machine of `hcq`, for drivers of this repository.

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::{class, escape, status};
use hcq::transport::{ANYWHERE, Fault, Machine, Map, Prot, Request};
use twin::fires::fires;
use twin_nv::machine::TwinMachine;

#[test]
fn a_driver_opens_files_and_makes_objects() {
    let twin = TwinMachine::new("chip=ad102,driver=580").unwrap();
    let version = twin.read("/sys/module/nvidia/version").unwrap();
    assert_eq!(version, "580.142\n");
    assert!(twin.list("/dev").unwrap().contains(&"nvidia0".to_string()));
    let missing = twin.open("/dev/nvidia1").err().unwrap();
    assert_eq!(missing.fault, Fault::Errno(libc::ENOENT));
    let control = twin.open("/dev/nvidiactl").unwrap();
    let root = escape::Alloc {
        h_class: class::NV01_ROOT_CLIENT.number,
        ..Default::default()
    };
    let mut bytes = root.encode(Branch::R580);
    let ioctl = escape::ioctl(&escape::RM_ALLOC, Branch::R580).unwrap();
    // SAFETY: nothing in the argument is a pointer.
    #[allow(unsafe_code)]
    let mut request = unsafe { Request::raw(ioctl, &mut bytes) };
    control.ioctl(&mut request).unwrap();
    let root = escape::Alloc::decode(Branch::R580, &bytes).unwrap();
    assert!(root.status == status::NV_OK && root.h_object_new != 0);
    assert!(!twin.machine().state().is_empty());
    // What is mapped lies in what was reserved; nothing was named to be mapped here.
    let place = twin.reserve(0x1000, 0x1000, ANYWHERE).unwrap();
    let map = Map {
        offset: 0,
        len: 0x1000,
        prot: Prot::ReadWrite,
        at: Some(place.base()),
    };
    let refused = control.mmap(map).err().unwrap();
    assert_eq!(refused.fault, Fault::Errno(libc::EINVAL));
    fires("NV-MMAP-CONTEXT").only(&twin.machine().broken_rules());
    // The process ends with its last handle.
    let machine = twin.machine().clone();
    drop((control, twin));
    assert!(machine.state().is_empty());
}
