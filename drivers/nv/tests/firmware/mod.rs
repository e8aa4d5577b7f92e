//! Cards without a kernel driver, and firmware files that their keys accept: NVIDIA's own, or made-up ones.

#![allow(dead_code)] // Each user takes a part of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hcq::transport::{Clock, VirtualClock};
use tempfile::TempDir;
use twin_nv::pci::card::Config;
use twin_nv::pci::chip::{Chip, Family};
use twin_nv::pci::machine::PciMachine;
use twin_nv::pci::signed::{Booter, Does, Fmc, Image, Loader, Signed, sum};

#[path = "../../src/gsp/tests/files.rs"]
mod files;

/// The chips, with the families of their signatures.
pub const CHIPS: [(&str, &str, Family); 4] = [
    ("ga102", "ga10x", Family::Ga10x),
    ("ad102", "ad10x", Family::Ad10x),
    ("gh100", "gh100", Family::Gh100),
    ("gb202", "gb20x", Family::Gb20x),
];

/// Firmware files, and what cards accept.
pub struct Firmware {
    pub folder: PathBuf,
    pub signed: Signed,
    _made: Option<TempDir>,
}

impl Firmware {
    /// Files of the form of NVIDIA's, with nothing in them, and cards whose keys accept them.
    pub fn made() -> Firmware {
        let folder = tempfile::tempdir().unwrap();
        let (mut booters, mut loaders, mut fmcs) = (Vec::new(), Vec::new(), Vec::new());
        for (chip, name, family) in CHIPS {
            let loader = files::loader();
            loaders.push(Loader {
                family,
                code: (sum(&loader), loader.len() as u64),
                offsets: [0x100, 0x80, 0],
            });
            if let Some(fsp) = &Chip::of(chip).unwrap().fsp {
                let sizes = (fsp.key, fsp.signature);
                files::write_by_fsp(folder.path(), "570.144", (chip, name), sizes);
                let fmc = files::fmc();
                fmcs.push(Fmc {
                    name: "made-up fmc",
                    family,
                    image: (sum(&fmc), fmc.len() as u64),
                    hash: sum(&files::FMC_HASH),
                    key: sum(&files::FMC_KEY[..fsp.key]),
                    signature: sum(&files::FMC_SIGNATURE[..fsp.signature]),
                });
                continue;
            }
            files::write_for(folder.path(), "570.144", (chip, name));
            for (name, mark, does) in [
                ("booter_load", files::LOAD, Does::Load),
                ("booter_unload", files::UNLOAD, Does::Unload),
            ] {
                let image = files::booter_image(mark);
                let code = &image[files::APP..0x400];
                let signature = |number| sum(&[files::SIGNATURE + number; 384]);
                booters.push(Booter {
                    name,
                    family,
                    does,
                    code: (sum(code), code.len()),
                    fuse_version: 1,
                    signatures: [0, 1].map(signature).to_vec(),
                });
            }
        }
        let image = files::image();
        let signature = sum(&files::signature());
        let images = vec![Image {
            version: "570.144",
            image: (sum(&image), image.len() as u64),
            signatures: CHIPS.map(|(_, _, family)| (family, signature)).to_vec(),
        }];
        Firmware {
            folder: folder.path().to_owned(),
            signed: Signed {
                booters,
                images,
                loaders,
                fmcs,
            },
            _made: Some(folder),
        }
    }

    /// NVIDIA's own; `None`, which is said, where `scripts/fetch firmware` has not fetched them.
    pub fn published() -> Option<Firmware> {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware/nvidia-graphics");
        if !folder.join("nvidia").is_dir() {
            let folder = folder.display();
            println!("published files skipped: {folder}: scripts/fetch firmware fetches them");
            return None;
        }
        Some(Firmware {
            folder,
            signed: Signed::published(),
            _made: None,
        })
    }

    /// A machine with a card of a chip that is as it should be, but for what is changed.
    pub fn machine(&self, chip: &str, change: impl FnOnce(&mut Config)) -> Arc<PciMachine> {
        let mut config = self.config(chip);
        change(&mut config);
        PciMachine::of(&[config]).unwrap()
    }

    /// A card of a chip that accepts these files.
    pub fn config(&self, chip: &str) -> Config {
        Config {
            signed: self.signed.clone(),
            ..Config::of(Chip::of(chip).unwrap())
        }
    }
}

/// Time that passes when a card has nothing to do.
pub struct CardTime {
    is_idle: Box<dyn Fn() -> bool + Send + Sync>,
    clock: VirtualClock,
}

impl CardTime {
    /// That of the first card of a machine.
    pub fn of(machine: &PciMachine) -> CardTime {
        let card = machine.function(0).unwrap().clone();
        CardTime {
            is_idle: Box::new(move || card.is_idle()),
            clock: VirtualClock::new(),
        }
    }
}

impl Clock for CardTime {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn sleep(&self, time: Duration) {
        while !(self.is_idle)() {
            std::thread::sleep(Duration::from_micros(20));
        }
        self.clock.sleep(time);
    }
}
