//! Two cards without the kernel driver, with made-up firmware that its keys accept.

use std::path::Path;
use std::sync::Arc;

use drivers_nv::Options;
use hcq::transport::Machine;
use hcq::{Device, Result};
use tempfile::TempDir;
use twin_nv::pci::card::Config;
use twin_nv::pci::chip::{Chip, Family};
use twin_nv::pci::machine::PciMachine;
use twin_nv::pci::signed::{Booter, Does, Image, Loader, Signed, sum};

#[path = "../../../../drivers/nv/src/gsp/tests/files.rs"]
#[allow(dead_code)] // Those of Hopper are for the driver's own tests.
mod files;

/// A machine with such cards, and the folder of their firmware.
pub struct Cards {
    pub machine: Arc<PciMachine>,
    folder: TempDir,
}

impl Cards {
    /// Cards of a chip, with the family of its signatures.
    pub fn new(chip: &str, (name, family): (&str, Family)) -> Cards {
        let folder = tempfile::tempdir().unwrap();
        files::write_for(folder.path(), "570.144", (chip, name));
        let mut config = Config::of(Chip::of(chip).unwrap());
        config.signed = signed(family);
        Cards {
            machine: PciMachine::of(&[config.clone(), config]).unwrap(),
            folder,
        }
    }

    /// Opens one.
    pub fn open(&self, index: u32, options: Options) -> Result<Arc<dyn Device>> {
        let machine: Arc<dyn Machine> = self.machine.clone();
        let options = Options {
            firmware: vec![Path::to_owned(self.folder.path())],
            ..options
        };
        Ok(drivers_nv::open_pci(
            &machine,
            "0000:01:00.0",
            index,
            &options,
        )?)
    }
}

/// What the keys of a card accept.
fn signed(family: Family) -> Signed {
    let booter = |name, mark, does| {
        let image = files::booter_image(mark);
        let code = &image[files::APP..0x400];
        let signature = |number| sum(&[files::SIGNATURE + number; 384]);
        Booter {
            name,
            family,
            does,
            code: (sum(code), code.len()),
            fuse_version: 1,
            signatures: [0, 1].map(signature).to_vec(),
        }
    };
    let (loader, image) = (files::loader(), files::image());
    Signed {
        booters: vec![
            booter("booter_load", files::LOAD, Does::Load),
            booter("booter_unload", files::UNLOAD, Does::Unload),
        ],
        images: vec![Image {
            version: "570.144",
            image: (sum(&image), image.len() as u64),
            signatures: vec![(family, sum(&files::signature()))],
        }],
        loaders: vec![Loader {
            family,
            code: (sum(&loader), loader.len() as u64),
            offsets: [0x100, 0x80, 0],
        }],
    }
}
