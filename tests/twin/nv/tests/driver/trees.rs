//! Random trees of objects, beside a model that knows nothing but parents: a handle is there until it, or
//! something above it, is freed.

use std::collections::BTreeMap;

use drivers_spec::nv::{class, escape, memory, status};

use super::bench::Bench;

/// A sequence that looks random.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }
}

/// What can be made, and below what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Client,
    Device,
    Subdevice,
    Space,
    Local,
    System,
    Event,
    Usermode,
}

const KINDS: [Kind; 7] = [
    Kind::Device,
    Kind::Subdevice,
    Kind::Space,
    Kind::Local,
    Kind::System,
    Kind::Event,
    Kind::Usermode,
];

impl Kind {
    fn fits(self, parent: Kind) -> bool {
        match self {
            Kind::Client => false,
            Kind::Device => parent == Kind::Client,
            Kind::Subdevice | Kind::System => parent == Kind::Device,
            Kind::Space | Kind::Local => matches!(parent, Kind::Device | Kind::Subdevice),
            Kind::Event => true,
            Kind::Usermode => parent == Kind::Subdevice,
        }
    }

    fn make(self, bench: &Bench, parent: u32, handle: u32) -> (u32, u32) {
        let none = None::<&mut class::GrAlloc>;
        let alloc = |call: drivers_spec::nv::abi::Call| call.number;
        match self {
            Kind::Client => unreachable!(),
            Kind::Device => {
                let mut params = class::Nv0080Alloc::default();
                bench.alloc(
                    parent,
                    alloc(class::NV01_DEVICE_0),
                    handle,
                    Some(&mut params),
                )
            }
            Kind::Subdevice => bench.alloc(parent, alloc(class::NV20_SUBDEVICE_0), handle, none),
            Kind::Space => {
                let mut params = class::VaspaceAlloc::default();
                bench.alloc(
                    parent,
                    alloc(class::FERMI_VASPACE_A),
                    handle,
                    Some(&mut params),
                )
            }
            Kind::Local => {
                let mut params = bench.local_params(0x1_0000);
                let class = alloc(class::NV01_MEMORY_LOCAL_USER);
                bench.alloc(parent, class, handle, Some(&mut params))
            }
            Kind::System => {
                let mut params = bench.local_params(0x1000);
                params.attr = memory::attr::LOCATION.put(memory::attr::LOCATION_PCI);
                let class = alloc(class::NV01_MEMORY_SYSTEM);
                bench.alloc(parent, class, handle, Some(&mut params))
            }
            Kind::Event => {
                let mut params = class::EventAlloc {
                    h_class: 0x79,
                    data: bench.ctl as u64,
                    ..Default::default()
                };
                bench.alloc(parent, alloc(class::NV01_EVENT), handle, Some(&mut params))
            }
            Kind::Usermode => bench.alloc(parent, alloc(class::TURING_USERMODE_A), handle, none),
        }
    }
}

/// Forgets a handle and all below.
fn forget(model: &mut BTreeMap<u32, (u32, Kind)>, handle: u32) {
    model.remove(&handle);
    let below = |model: &BTreeMap<u32, (u32, Kind)>| {
        model
            .iter()
            .find(|(_, (parent, _))| *parent == handle)
            .map(|(&h, _)| h)
    };
    while let Some(child) = below(model) {
        forget(model, child);
    }
}

#[test]
fn random_trees_are_as_a_simple_model_has_them() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut bench = Bench::new("");
        bench.client = bench.root();
        let client = bench.client;
        let mut event = escape::AllocOsEvent {
            h_client: client,
            fd: bench.ctl as u32,
            ..Default::default()
        };
        bench
            .escape(bench.ctl, &escape::ALLOC_OS_EVENT, &mut event)
            .unwrap();
        let mut model: BTreeMap<u32, (u32, Kind)> = [(client, (0, Kind::Client))].into();
        for _ in 0..300 {
            // Few handles, so that they are taken, freed and taken again.
            let handles: Vec<u32> = model.keys().copied().collect();
            let some = handles[random.below(handles.len() as u64) as usize];
            let handle = match random.below(4) {
                0 => 0,
                _ => 0x100 + random.below(24) as u32,
            };
            if random.below(4) == 0 {
                let target = match random.below(3) {
                    0 => handle,
                    _ => some,
                };
                if target == client && random.below(10) > 0 {
                    continue;
                }
                let expected = match model.contains_key(&target) {
                    true => status::NV_OK,
                    false => status::NV_ERR_OBJECT_NOT_FOUND,
                };
                assert_eq!(
                    bench.free(target),
                    expected,
                    "seed {seed}: free {target:#x}"
                );
                if expected == status::NV_OK {
                    forget(&mut model, target);
                }
                if target == client {
                    break;
                }
            } else {
                let kind = KINDS[random.below(KINDS.len() as u64) as usize];
                let parent = match random.below(8) {
                    0 => handle | 0x8000,
                    _ => some,
                };
                let expected = match model.get(&parent) {
                    None => status::NV_ERR_OBJECT_NOT_FOUND,
                    Some((_, above)) if !kind.fits(*above) => status::NV_ERR_INVALID_OBJECT_PARENT,
                    _ if model.contains_key(&handle) => status::NV_ERR_INSERT_DUPLICATE_NAME,
                    // It is of what it is below, and that has to notify.
                    Some((_, above)) if kind == Kind::Event && *above != Kind::Subdevice => {
                        status::NV_ERR_INVALID_OBJECT
                    }
                    _ => status::NV_OK,
                };
                let (status, made) = kind.make(&bench, parent, handle);
                assert_eq!(status, expected, "seed {seed}: {kind:?} below {parent:#x}");
                if status == status::NV_OK {
                    assert!(model.insert(made, (parent, kind)).is_none());
                    assert!(handle == 0 || made == handle);
                }
            }
            let all: Vec<(u32, u32)> = model.keys().map(|&handle| (client, handle)).collect();
            let state = bench.machine.state();
            assert_eq!(state.handles(), all, "seed {seed}");
            let local = model.values().filter(|(_, kind)| *kind == Kind::Local);
            assert_eq!(state.local_in_use(0), local.count() as u64 * 0x1_0000);
        }
        bench.process.exit();
        assert!(bench.machine.state().handles().is_empty());
    }
}
