//! Objects that are damaged, on a device: each is an error with a name, or loads; the device goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hcq::{Device, Error};

use super::damage::{Chance, damage};
use super::stand::{Rig, ends, kernel, machine, twin};

#[test]
fn damaged_objects_leave_a_device_as_it_was() {
    for config in ["chip=ga102", "chip=h100", "chip=gb202"] {
        let twin = twin(config);
        let machine = machine(&twin);
        let rig = Rig::open(&machine, 0, &kernel(config, "step")).unwrap();
        let (mut loaded, mut refused) = (0, 0);
        for seed in 0..200 {
            let mut image = kernel(config, "step");
            let mut bytes = image.bytes.to_vec();
            damage(&mut bytes, &mut Chance(seed));
            image.bytes = bytes.into();
            match catch_unwind(AssertUnwindSafe(|| rig.device.load(&image))) {
                Ok(Ok(_)) => loaded += 1,
                Ok(Err(Error::Program { program, .. })) => {
                    assert_eq!(program, "step");
                    refused += 1;
                }
                other => panic!(
                    "{config}, seed {seed}: {:?}",
                    other.map(|one| one.map(drop))
                ),
            }
        }
        assert!(loaded > 0 && refused > 0, "{config}: {loaded}, {refused}");
        rig.round(1).unwrap();
        drop(rig);
        ends(&twin, &[], config);
    }
}
