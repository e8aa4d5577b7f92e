//! Contexts, waits and properties of KGSL.

use drivers_spec::qcom::kgsl::{self, Context, context, property, timestamp};
use twin::errno::Errno;
use twin::fires::fires;

use super::rig::{Rig, errno};

const VERSIONS: [&str; 2] = ["version=4.9", "version=5.15"];

fn flags(rig: &Rig, flags: u32) -> Result<u32, Errno> {
    let mut args = kgsl::DrawctxtCreate {
        flags,
        drawctxt_id: 0,
    };
    rig.call(kgsl::DRAWCTXT_CREATE, &mut args)?;
    Ok(args.flags)
}

#[test]
fn contexts_are_made_with_flags_that_the_kernel_demands() {
    let needed = (Context::PREAMBLE | Context::NO_GMEM_ALLOC).bits();
    for version in VERSIONS {
        let rig = Rig::new(version);
        let medium = context::PRIORITY_MEDIUM << context::PRIORITY_SHIFT;
        let own = Context::PER_CONTEXT_TS.bits();
        assert_eq!(flags(&rig, needed), Ok(needed | own | medium));
        let high = 1 << context::PRIORITY_SHIFT | context::TYPE_CL << context::TYPE_SHIFT;
        // A bit that means nothing is dropped.
        let wanted = needed | high;
        assert_eq!(flags(&rig, wanted | 1 << 5), Ok(wanted | own));
        assert_eq!(flags(&rig, Context::PREAMBLE.bits()), Err(Errno::EINVAL));
        assert_eq!(
            flags(&rig, Context::NO_GMEM_ALLOC.bits()),
            Err(Errno::EINVAL)
        );
        let secure = needed | Context::SECURE.bits();
        assert_eq!(flags(&rig, secure), Err(Errno::EOPNOTSUPP));
        let lpac = flags(&rig, needed | Context::LPAC.bits());
        match version {
            "version=4.9" => assert!(lpac.is_ok()),
            _ => assert_eq!(lpac, Err(Errno::EOPNOTSUPP)),
        }
        assert_eq!(rig.broken(), [""; 0]);
    }
}

#[test]
fn there_is_room_for_so_many_contexts() {
    for (version, most) in [("version=4.9", 812), ("version=5.15", 201)] {
        let rig = Rig::new(version);
        let mut made = 1;
        let refused = loop {
            match rig.create(Context::empty()) {
                Ok(_) => made += 1,
                Err(errno) => break errno,
            }
        };
        assert_eq!((refused, made), (Errno::ENOSPC, most), "{version}");
    }
}

#[test]
fn contexts_belong_to_files() {
    let rig = Rig::new("");
    let other = rig.other();
    let kind = timestamp::QUEUED;
    assert_eq!(rig.timestamp(rig.context, kind), Ok(0));
    assert_eq!(other.timestamp(rig.context, kind), Err(Errno::EINVAL));
    assert_eq!(rig.timestamp(rig.context, 4), Err(Errno::EINVAL));
    assert_eq!(rig.timestamp(777, kind), Err(Errno::EINVAL));
    let destroy = |of: &Rig, id| {
        let mut args = kgsl::DrawctxtDestroy { drawctxt_id: id };
        of.call(kgsl::DRAWCTXT_DESTROY, &mut args)
    };
    assert_eq!(destroy(&other, rig.context), Err(Errno::EINVAL));
    assert_eq!(destroy(&rig, rig.context), Ok(()));
    assert_eq!(destroy(&rig, rig.context), Err(Errno::EINVAL));
    assert_eq!(rig.wait(0), Err(Errno::EINVAL));
    // A file that is closed takes its contexts along.
    other.process.close(other.fd).unwrap();
    assert_eq!(other.process.objects(), [""; 0]);
}

#[test]
fn waits_end_by_time() {
    let rig = Rig::new("");
    assert_eq!(rig.wait(0), Ok(()));
    // What was not queued is not waited for.
    assert_eq!(rig.wait(1), Err(Errno::EINVAL));
    let chosen = rig.create(Context::USER_GENERATED_TS).unwrap();
    assert_eq!(rig.wait_for(chosen, 5, 10), Err(Errno::ETIMEDOUT));
}

#[test]
fn properties_have_their_sizes() {
    for version in VERSIONS {
        let rig = Rig::new(version);
        let old = version == "version=4.9";
        let mut info = kgsl::DevInfo::default();
        rig.property(property::DEVICE_INFO, &mut info).unwrap();
        assert_eq!((info.device_id, info.chip_id), (1, 0x0603_0001));
        assert_eq!((info.mmu_enabled, info.gmem_sizebytes), (1, 1 << 20));
        let mut driver = kgsl::Version::default();
        rig.property(property::VERSION, &mut driver).unwrap();
        assert_eq!((driver.drv_major, driver.dev_major), (3, 3));
        let mut bits = 0_u32;
        rig.property(property::DEVICE_BITNESS, &mut bits).unwrap();
        assert_eq!(bits, 48);
        let mut bank = 0_u32;
        rig.property(property::HIGHEST_BANK_BIT, &mut bank).unwrap();
        assert_eq!(bank, 15);
        let mut at = 0_u64;
        rig.property(property::UCHE_GMEM_VADDR, &mut at).unwrap();
        assert_eq!(at, 0x10_0000);
        let mut model = kgsl::GpuModel::default();
        let done = rig.property(property::GPU_MODEL, &mut model);
        let half = rig.sized(property::VERSION, &mut driver, 8);
        match old {
            true => assert_eq!((done, half), (Err(Errno::EINVAL), Err(Errno::EINVAL))),
            false => {
                assert_eq!((done, half), (Ok(()), Ok(())));
                assert!(model.gpu_model.starts_with(b"Adreno630v2\0"));
            }
        }
        let unknown = rig.property(0x7777, &mut bits);
        let wanted = if old { Errno::EINVAL } else { Errno::ENODEV };
        assert_eq!(unknown, Err(wanted));
        assert_eq!(rig.broken(), [""; 0]);
        let done = rig.property(property::UBWC_MODE, &mut bits);
        assert_eq!(done, Err(Errno::EINVAL));
        fires("KGSL-PROPERTY-NOT-MODELLED").only(&rig.broken());
    }
}

#[test]
fn constraints_of_power_are_set() {
    use super::rig::address;
    let rig = Rig::new("");
    let set = |kind, context_id, level, size| {
        let mut level = kgsl::ConstraintPwrLevel { level };
        let mut value = kgsl::Constraint {
            kind,
            context_id,
            data: address(&mut level),
            size,
        };
        let mut args = kgsl::Property {
            kind: property::PWR_CONSTRAINT,
            value: address(&mut value),
            sizebytes: size_of::<kgsl::Constraint>() as u64,
            ..kgsl::Property::default()
        };
        rig.call(kgsl::SETPROPERTY, &mut args)
    };
    let level = kgsl::constraint::PWRLEVEL;
    let context = rig.context;
    assert_eq!(set(level, context, kgsl::constraint::PWR_MAX, 4), Ok(()));
    assert_eq!(set(level, context, 2, 4), Err(Errno::EINVAL));
    assert_eq!(set(level, context, 1, 8), Err(Errno::EINVAL));
    assert_eq!(set(level, 99, 1, 4), Err(Errno::EINVAL));
    assert_eq!(set(7, context, 1, 4), Err(Errno::EINVAL));
    assert_eq!(set(kgsl::constraint::NONE, context, 0, 4), Ok(()));
}

#[test]
fn requests_are_found_by_number() {
    let rig = Rig::new("");
    let mut args = [0_u64; 16];
    let at = super::rig::list(&mut args);
    // Number 0x7f.
    let unknown = rig.process.ioctl(rig.fd, 0xc010_097f, at);
    assert_eq!(unknown, Err(Errno::ENOTTY));
    fires("KGSL-UNKNOWN-IOCTL").only(&rig.broken());
    let rig = Rig::new("");
    // Another type, and half of the struct: the kernel takes it.
    let ioctl = kgsl::CMDSTREAM_READTIMESTAMP_CTXTID.ioctl().request;
    let mut read = kgsl::ReadTimestamp {
        context_id: rig.context,
        kind: timestamp::QUEUED,
        timestamp: 77,
    };
    let at = super::rig::address(&mut read);
    let request = ioctl & !0x3fff_ff00 | 8 << 16 | 8 << 8;
    assert_eq!(rig.process.ioctl(rig.fd, request, at), Ok(()));
    assert_eq!(read.timestamp, 77);
    fires("KGSL-IOCTL-TYPE").only(&rig.broken());
    assert_eq!(errno(rig.process.ioctl(rig.fd, ioctl, 16)), Errno::EFAULT);
    assert_eq!(errno(rig.process.ioctl(5555, ioctl, at)), Errno::EBADF);
}
