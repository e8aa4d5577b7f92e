//! Any bytes are a model bundle whose plans stay in their memory, or an error. Hashes are made right, so that what is behind
//! them is reached.
#![no_main]

use doorbell_run::ModelBundle;
use doorbell_run::plan::{Argument, Step};
use doorbell_run::write::sealed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = ModelBundle::from_bytes("fuzz", bytes.to_vec());
    let Ok(bundle) = ModelBundle::from_bytes("fuzz", sealed(bytes.to_vec())) else {
        return;
    };
    bundle.check().expect("all hashes are right");
    for plan in bundle.targets() {
        for step in plan.prologue.iter().chain(&plan.steps) {
            let Step::Launch(launch) = step else { continue };
            let object = &plan.objects[launch.object as usize];
            assert_eq!(object.addresses.len(), launch.arguments.len());
            for argument in &launch.arguments {
                if let Argument::Address(at) = argument {
                    assert!(at.offset <= plan.regions[at.region as usize].bytes);
                }
            }
        }
    }
});
