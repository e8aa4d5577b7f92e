//! Memory that devices and processes share, as somebody who looks on sees it: a file, and what it was when it
//! was last looked at.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::fd::AsFd;

use twin::errno::{Errno, Result};
use twin::host::{Mapping, PAGE, Part, touched};
use twin::record::Runs;

const BYTES: usize = PAGE as usize;
type Page = [u8; BYTES];

/// See the front page.
pub struct Place {
    file: File,
    /// All of it, as large as it was when this was last asked for.
    view: Mapping,
    /// What pages were; those that are missing were zero.
    seen: BTreeMap<u64, Box<Page>>,
}

/// What has become of a place in a replay, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Compared {
    /// Devices have written what the record has.
    pub same: u64,
    /// The record has them, devices have written nothing there: a program has. They were put there.
    pub taken: u64,
    /// Devices have written something else, or nothing. What the record has was put there.
    pub other: u64,
    /// The first of these: where, what the record has, and what is there.
    pub first: Option<(u64, u8, u8)>,
}

fn view(file: &File) -> Result<Mapping> {
    let bytes = file.metadata().map_err(|_| Errno::EIO)?.len();
    Ok(Mapping::of_parts(
        file.as_fd(),
        &[Part { offset: 0, bytes }],
    )?)
}

impl Place {
    /// All of a file, which was zero.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(file: File) -> Result<Place> {
        Ok(Place {
            view: view(&file)?,
            file,
            seen: BTreeMap::new(),
        })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file may have become larger.
    ///
    /// # Errors
    /// What the system says.
    pub fn grown(&mut self) -> Result {
        self.view = view(&self.file)?;
        Ok(())
    }

    fn touched(&self) -> impl Iterator<Item = u64> + use<> {
        let end = self.view.bytes() / PAGE;
        let ranges = touched(self.file.as_fd(), self.view.bytes()).into_iter();
        ranges.flat_map(move |(from, to)| from..to.min(end))
    }

    fn was(&self, page: u64) -> Page {
        self.seen.get(&page).map_or([0; BYTES], |seen| **seen)
    }

    /// What has changed since this was last asked, in pieces of some size.
    pub fn changes(&mut self, mut each: impl FnMut(Runs)) {
        const PIECE: usize = 4 << 20;
        let mut runs = Runs::default();
        let mut now = [0; BYTES];
        for page in self.touched() {
            self.view.read(page * PAGE, &mut now);
            let zero = [0; BYTES];
            let was = self.seen.get(&page).map_or(&zero, |seen| &**seen);
            if *was == now {
                continue;
            }
            for (from, to) in differences(was, &now) {
                runs.push(page * PAGE + from as u64, &now[from..to]);
            }
            self.seen.insert(page, Box::new(now));
            if runs.bytes() > PIECE {
                each(std::mem::take(&mut runs));
            }
        }
        if runs.bytes() > 0 {
            each(runs);
        }
    }

    /// Compares what devices have written since this was last called with what the record has, and makes it
    /// that. `alone`: no program has written meanwhile.
    pub fn settle(&mut self, record: &[&[u8]], alone: bool) -> Compared {
        let mut recorded: BTreeMap<u64, Page> = BTreeMap::new();
        for (mut at, mut bytes) in record.iter().flat_map(|data| Runs::of(data)) {
            while !bytes.is_empty() && at < self.view.bytes() {
                let (page, from) = (at / PAGE, (at % PAGE) as usize);
                let length = bytes.len().min(BYTES - from);
                let content = recorded.entry(page).or_insert_with(|| self.was(page));
                content[from..from + length].copy_from_slice(&bytes[..length]);
                (at, bytes) = (at + length as u64, &bytes[length..]);
            }
        }
        let mut now = [0; BYTES];
        let zero = [0; BYTES];
        for page in self.touched() {
            // Most have not changed.
            if let Entry::Vacant(other) = recorded.entry(page) {
                self.view.read(page * PAGE, &mut now);
                let was = self.seen.get(&page).map_or(&zero, |seen| &**seen);
                if *was != now {
                    other.insert(*was);
                }
            }
        }
        let mut compared = Compared::default();
        for (page, wanted) in recorded {
            let was = self.was(page);
            self.view.read(page * PAGE, &mut now);
            if was == now && was == wanted {
                continue;
            }
            for (at, ((&was, &now), &wanted)) in was.iter().zip(&now).zip(&wanted).enumerate() {
                match (now == wanted, now == was) {
                    (true, true) => {}
                    (true, false) => compared.same += 1,
                    (false, true) if !alone => compared.taken += 1,
                    (false, _) => {
                        compared.other += 1;
                        let first = (page * PAGE + at as u64, wanted, now);
                        compared.first.get_or_insert(first);
                    }
                }
            }
            for (from, to) in differences(&now, &wanted) {
                self.view
                    .write(page * PAGE + from as u64, &wanted[from..to]);
            }
            self.seen.insert(page, Box::new(wanted));
        }
        compared
    }

    /// Puts doorbells where the record has them: in words, as they were written.
    pub fn ring(&self, data: &[u8]) {
        for (at, bytes) in Runs::of(data) {
            self.view.write(at, bytes);
        }
    }
}

/// The runs in which two pages differ: whole words, since a word may be one store.
fn differences(one: &Page, other: &Page) -> Vec<(usize, usize)> {
    const WORD: usize = 8;
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in (0..BYTES).step_by(WORD) {
        if one[at..at + WORD] == other[at..at + WORD] {
            continue;
        }
        match runs.last_mut() {
            // What lies between costs less than a run of its own.
            Some((_, to)) if at - *to <= 2 * WORD => *to = at + WORD,
            _ => runs.push((at, at + WORD)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin::host::memory_file;

    fn place(file: &File) -> Place {
        Place::new(file.try_clone().unwrap()).unwrap()
    }

    fn file() -> File {
        let file = memory_file().unwrap();
        file.set_len(4 * PAGE).unwrap();
        file
    }

    #[test]
    fn changes_are_told_once() {
        let file = file();
        let (device, mut place) = (view(&file).unwrap(), place(&file));
        let changes = |place: &mut Place| {
            let mut all = Vec::new();
            place.changes(|runs| all.extend(runs.into_bytes()));
            Runs::of(&all)
                .map(|(at, bytes)| (at, bytes.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(changes(&mut place), []);
        device.write(16, &[1]);
        device.write(32, &[1]);
        device.write(64, &[1]);
        device.write(3 * PAGE, &[1; 9]);
        assert_eq!(changes(&mut place), [(16, 24), (64, 8), (3 * PAGE, 16)]);
        assert_eq!(changes(&mut place), []);
        file.set_len(6 * PAGE).unwrap();
        place.grown().unwrap();
        let device = view(&file).unwrap();
        device.write(5 * PAGE, &[1]);
        assert_eq!(changes(&mut place), [(5 * PAGE, 8)]);
    }

    #[test]
    fn what_devices_write_is_told_from_what_programs_do() {
        let (recorded, replayed) = (file(), file());
        let (one, mut seen) = (view(&recorded).unwrap(), place(&recorded));
        let (other, mut place) = (view(&replayed).unwrap(), place(&replayed));
        let mut step = |alone, program: &[(u64, u8)], device: &[(u64, u8)], again: &[(u64, u8)]| {
            for (at, byte) in program.iter().chain(device) {
                one.write(*at, &[*byte]);
            }
            for (at, byte) in again {
                other.write(*at, &[*byte]);
            }
            let mut runs = Vec::new();
            seen.changes(|one| runs.push(one.into_bytes()));
            let runs: Vec<&[u8]> = runs.iter().map(|run| &**run).collect();
            let compared = place.settle(&runs, alone);
            assert_eq!(place.was(0), seen.was(0));
            (
                compared.same,
                compared.taken,
                compared.other,
                compared.first,
            )
        };
        assert_eq!(
            step(false, &[(1, 1)], &[(9, 2)], &[(9, 2)]),
            (1, 1, 0, None)
        );
        assert_eq!(step(false, &[], &[], &[]), (0, 0, 0, None));
        // Another value, and one where there should be none.
        assert_eq!(
            step(false, &[], &[(9, 3)], &[(9, 4)]),
            (0, 0, 1, Some((9, 3, 4)))
        );
        assert_eq!(
            step(false, &[], &[], &[(20, 5)]),
            (0, 0, 1, Some((20, 0, 5)))
        );
        assert_eq!(step(false, &[], &[(20, 6)], &[(20, 6)]), (1, 0, 0, None));
        // Nobody but devices can have written it.
        assert_eq!(
            step(true, &[], &[(30, 1)], &[]),
            (0, 0, 1, Some((30, 1, 0)))
        );
    }
}
