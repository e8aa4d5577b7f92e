//! The twin as a machine of `hcq`.

use drivers_spec::amd::kfd;
use hcq::transport::{Fault, Machine, Request};
use twin_amd::machine::TwinMachine;

#[test]
fn an_argument_is_as_long_as_its_request_says() {
    let twin = TwinMachine::new("chip=gfx1100").unwrap();
    let kfd = twin.open("/dev/kfd").unwrap();
    let mut around = [0xaa_u8; 24];
    for bytes in [4, 16] {
        // SAFETY: refused before the twin looks at it.
        #[allow(unsafe_code)]
        let mut request = unsafe { Request::raw(kfd::GET_VERSION.ioctl(), &mut around[..bytes]) };
        let error = kfd.ioctl(&mut request).unwrap_err();
        let (wanted, moved) = (8, bytes);
        assert_eq!(error.fault, Fault::Short { wanted, moved }, "{error}");
    }
    assert_eq!(around, [0xaa; 24]);
    let mut args = kfd::GetVersionArgs::default();
    kfd.ioctl(&mut kfd::GET_VERSION.with(&mut args, &mut []))
        .unwrap();
    assert_eq!(args.major_version, 1);
}

#[test]
fn what_is_not_described_is_not_called() {
    let twin = TwinMachine::new("chip=gfx1100").unwrap();
    let kfd = twin.open("/dev/kfd").unwrap();
    let mut args = kfd::SetCuMaskArgs::default();
    let error = kfd.ioctl(&mut kfd::SET_CU_MASK.with(&mut args, &mut []));
    assert!(matches!(error.unwrap_err().fault, Fault::Unsupported(_)));
}
