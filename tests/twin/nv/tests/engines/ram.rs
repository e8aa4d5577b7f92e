//! An address space in software.

use std::collections::BTreeMap;
use std::sync::Mutex;

use twin_nv::engines::bus::{Bus, Fault};
use twin_nv::space::{self, Access, Rights};

const PAGE: u64 = 4096;

/// Pages with rights.
#[derive(Default)]
pub struct Ram(Mutex<BTreeMap<u64, (Rights, Vec<u8>)>>);

impl Ram {
    /// Maps zeros, in whole pages.
    pub fn map(&self, at: u64, bytes: u64, rights: Rights) {
        let mut pages = self.0.lock().unwrap();
        for page in at / PAGE..(at + bytes).div_ceil(PAGE) {
            pages.insert(page, (rights, vec![0; PAGE as usize]));
        }
    }

    /// Stores, as the client does.
    pub fn put(&self, at: u64, data: &[u8]) {
        self.each(at, data.len(), Access::Read, |piece, i| {
            piece.copy_from_slice(&data[i..i + piece.len()]);
        })
        .unwrap();
    }

    pub fn put_words(&self, at: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(at, &bytes);
    }

    pub fn word(&self, at: u64) -> u32 {
        (self as &dyn Bus).word(at).unwrap()
    }

    pub fn long(&self, at: u64) -> u64 {
        (self as &dyn Bus).long(at).unwrap()
    }

    pub fn bytes(&self, at: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.read(at, &mut bytes).unwrap();
        bytes
    }

    fn each(
        &self,
        at: u64,
        bytes: usize,
        access: Access,
        mut f: impl FnMut(&mut [u8], usize),
    ) -> Result<(), Fault> {
        let mut pages = self.0.lock().unwrap();
        let end = at + bytes as u64;
        let range = at / PAGE..end.div_ceil(PAGE);
        for page in range.clone() {
            let va = (page * PAGE).max(at);
            let why = match pages.get(&page) {
                None => space::Fault::Unmapped,
                Some((rights, _)) if !rights.allow(access) => space::Fault::Denied(*rights),
                Some(_) => continue,
            };
            return Err(Fault { va, access, why });
        }
        for page in range {
            let (from, to) = ((page * PAGE).max(at), ((page + 1) * PAGE).min(end));
            let (_, content) = pages.get_mut(&page).unwrap();
            let inside = (from % PAGE) as usize..(from % PAGE + to - from) as usize;
            f(&mut content[inside], (from - at) as usize);
        }
        Ok(())
    }
}

impl Bus for Ram {
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.each(at, out.len(), Access::Read, |piece, i| {
            out[i..i + piece.len()].copy_from_slice(piece);
        })
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<(), Fault> {
        self.each(at, data.len(), Access::Write, |piece, i| {
            piece.copy_from_slice(&data[i..i + piece.len()]);
        })
    }

    fn update(
        &self,
        at: u64,
        held: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        self.each(at, held.len(), Access::Atomic, |piece, _| {
            held.copy_from_slice(piece);
            change(piece);
        })
    }
}
