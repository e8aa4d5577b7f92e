//! Memory of this process that devices in another one work on: a device finds it in a file, which stands for
//! what was there.
//!
//! The system knows best what is mapped where, and may take away or give again what nobody told us of: each
//! time it is asked (`/proc/self/maps`).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use twin::host::{PAGE, Part, user};

use crate::driver::{Map, Result};
use crate::system::{self, Still};

/// The file, and what stands for what.
pub struct Own {
    file: File,
    inode: u64,
    end: u64,
    /// By address: what was put into the file. Some of it may be gone.
    moved: BTreeMap<u64, Moved>,
    /// What was unmapped and no hook saw, so that devices may still know it: where it ended, by where it began.
    lost: BTreeMap<u64, u64>,
}

/// What was put into the file.
struct Moved {
    part: Part,
    /// Whether children see it, too.
    shared: bool,
}

impl Moved {
    fn meets(&self, one: &Mapped) -> bool {
        let Part { offset, bytes } = self.part;
        one.offset < offset + bytes && offset < one.offset + one.bytes()
    }
}

/// A line of the system's list.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mapped {
    at: u64,
    end: u64,
    rights: i32,
    private: bool,
    /// Shared with nobody but children: anonymous memory.
    family: bool,
    offset: u64,
    inode: u64,
}

impl Mapped {
    /// Of a line such as `7f12a000-7f12b000 rw-p 00001000 08:02 1234   /path`.
    fn of(line: &str) -> Option<Mapped> {
        let mut words = line.split_ascii_whitespace();
        let (at, end) = words.next()?.split_once('-')?;
        let rights = words.next()?.as_bytes();
        let offset = words.next()?;
        let inode = words.nth(1)?;
        let private = rights.contains(&b'p');
        // What the system calls memory that MAP_SHARED and MAP_ANONYMOUS have made.
        let family = !private && words.eq(["/dev/zero", "(deleted)"]);
        let hex = |word| u64::from_str_radix(word, 16).ok();
        let bits = [
            (b'r', libc::PROT_READ),
            (b'w', libc::PROT_WRITE),
            (b'x', libc::PROT_EXEC),
        ];
        let has = bits.iter().filter(|(letter, _)| rights.contains(letter));
        Some(Mapped {
            at: hex(at)?,
            end: hex(end)?,
            rights: has.map(|(_, bit)| bit).sum(),
            private,
            family,
            offset: hex(offset)?,
            inode: inode.parse().ok()?,
        })
    }

    fn all() -> Result<Vec<Mapped>> {
        let text = std::fs::read_to_string("/proc/self/maps").map_err(|_| libc::EFAULT)?;
        Ok(text.lines().filter_map(Mapped::of).collect())
    }

    /// The part of it inside a range.
    fn inside(&self, at: u64, end: u64) -> Option<Mapped> {
        let from = self.at.max(at);
        (from < self.end.min(end)).then(|| Mapped {
            at: from,
            end: self.end.min(end),
            offset: self.offset + (from - self.at),
            ..self.clone()
        })
    }

    fn bytes(&self) -> u64 {
        self.end - self.at
    }
}

impl Own {
    /// Nothing yet.
    ///
    /// # Errors
    /// An errno.
    pub fn new() -> Result<Own> {
        let file = system::memory_file()?;
        let about = file.metadata().map_err(|_| libc::EMFILE)?;
        Ok(Own {
            inode: about.ino(),
            file,
            end: 0,
            moved: BTreeMap::new(),
            lost: BTreeMap::new(),
        })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where memory of the process is in the file, from now on.
    ///
    /// # Errors
    /// `EFAULT` where not all of it is mapped with those rights, or is shared with somebody else.
    pub fn pin(&mut self, at: u64, bytes: u64, write: bool) -> Result<Vec<Part>> {
        let end = at
            .checked_add(bytes)
            .filter(|_| (at | bytes).is_multiple_of(PAGE));
        let end = end.ok_or(libc::EINVAL)?;
        let all = Mapped::all()?;
        self.sweep(&all);
        let pieces: Vec<Mapped> = all.iter().filter_map(|one| one.inside(at, end)).collect();
        let needed = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
        let inode = self.inode;
        let ours = |one: &Mapped| !one.private && one.inode == inode;
        let good = |one: &Mapped| {
            one.rights & needed == needed && (one.private || one.family || ours(one))
        };
        let there: u64 = pieces.iter().map(Mapped::bytes).sum();
        if there != bytes || !pieces.iter().all(good) {
            return Err(libc::EFAULT);
        }
        let part = |one: &Mapped| Part {
            offset: one.offset,
            bytes: one.bytes(),
        };
        let mut parts = Vec::new();
        for piece in &pieces {
            parts.push(match ours(piece) {
                true => part(piece),
                false => self.take(piece)?,
            });
        }
        Ok(parts)
    }

    /// Puts memory into the file, and the file in its place. Who writes there meanwhile waits.
    fn take(&mut self, piece: &Mapped) -> Result<Part> {
        let part = Part {
            offset: self.end,
            bytes: piece.bytes(),
        };
        let end = self.end + part.bytes;
        self.file.set_len(end).map_err(|_| libc::ENOMEM)?;
        self.end = end;
        const STEP: usize = 1 << 14;
        // On the stack: this may be the memory that the allocator gives, and this thread cannot wait for itself.
        let mut buffer = [0; STEP];
        let still = Still::keep(piece.at, part.bytes)?;
        for from in (0..part.bytes).step_by(STEP) {
            let bytes = (part.bytes - from).min(STEP as u64) as usize;
            let buffer = &mut buffer[..bytes];
            user::read(piece.at + from, buffer).map_err(|errno| errno.0)?;
            // What is zero takes no room.
            if buffer.iter().any(|&byte| byte != 0) {
                let written = self.file.write_all_at(buffer, part.offset + from);
                written.map_err(|_| libc::ENOMEM)?;
            }
        }
        self.place(piece, part, libc::MAP_SHARED)?;
        drop(still);
        let shared = piece.family;
        self.moved.insert(piece.at, Moved { part, shared });
        Ok(part)
    }

    fn place(&self, piece: &Mapped, part: Part, kind: i32) -> Result<u64> {
        let map = Map {
            at: piece.at,
            bytes: part.bytes,
            protection: piece.rights,
            flags: kind | libc::MAP_FIXED,
            offset: part.offset,
        };
        system::mmap(self.file.as_raw_fd(), map)
    }

    /// Gives back what is mapped nowhere any more.
    fn sweep(&mut self, all: &[Mapped]) {
        let (file, inode, lost) = (&self.file, self.inode, &mut self.lost);
        self.moved.retain(|&at, moved| {
            let used = all.iter().any(|one| one.inode == inode && moved.meets(one));
            // A child may still have what it shares.
            if !used && !moved.shared {
                system::punch(file, moved.part.offset, moved.part.bytes);
            }
            if !used {
                let end = lost.entry(at).or_default();
                *end = (*end).max(at + moved.part.bytes);
            }
            used
        });
    }

    /// Nothing of a range is mapped any more.
    pub fn forget(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        let lost: Vec<(u64, u64)> = self.lost.iter().map(|(&a, &b)| (a, b)).collect();
        for (first, last) in lost.into_iter().filter(|&(a, b)| a < end && b > at) {
            self.lost.remove(&first);
            let rest = [(first, at.min(last)), (end.max(first), last)];
            self.lost
                .extend(rest.into_iter().filter(|(from, to)| from < to));
        }
        let meets = |(&first, moved): (&u64, &Moved)| {
            (first < end && first + moved.part.bytes > at).then_some(first)
        };
        let met: Vec<u64> = self.moved.iter().filter_map(meets).collect();
        for first in met {
            let Some(Moved { part, shared }) = self.moved.remove(&first) else {
                continue;
            };
            let last = first + part.bytes;
            for (from, to) in [(first, at.min(last)), (end.max(first), last)] {
                if from < to {
                    let part = Part {
                        offset: part.offset + (from - first),
                        bytes: to - from,
                    };
                    self.moved.insert(from, Moved { part, shared });
                }
            }
            if !shared {
                let (from, to) = (at.max(first), end.min(last));
                system::punch(&self.file, part.offset + (from - first), to - from);
            }
        }
    }

    /// Whether something of a range is in the file, or was there when devices last heard of it.
    pub fn has(&self, at: u64, bytes: u64) -> bool {
        let end = at.saturating_add(bytes);
        let mut before = self.moved.range(..end);
        before.any(|(first, moved)| first + moved.part.bytes > at)
            || self.lost.range(..end).any(|(_, last)| *last > at)
    }

    /// In a process that was forked: what was memory of its own is that again.
    pub fn keep_for_child(&self) {
        for one in Mapped::all().unwrap_or_default() {
            let shared = |moved: &Moved| moved.shared && moved.meets(&one);
            if !one.private && one.inode == self.inode && !self.moved.values().any(shared) {
                let part = Part {
                    offset: one.offset,
                    bytes: one.bytes(),
                };
                // Where that fails, it stays shared.
                let _ = self.place(&one, part, libc::MAP_PRIVATE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_system_are_read() {
        let line = "7f1000-7f3000 rw-p 00001000 08:02 1234   /a path";
        let one = Mapped::of(line).unwrap();
        assert_eq!(
            one.inside(0x7f2000, 0x7f9000),
            Some(Mapped {
                at: 0x7f2000,
                end: 0x7f3000,
                rights: libc::PROT_READ | libc::PROT_WRITE,
                private: true,
                family: false,
                offset: 0x2000,
                inode: 1234,
            })
        );
        assert_eq!(one.inside(0x7f3000, 0x7f9000), None);
        assert_eq!(Mapped::of("not a line"), None);
    }

    /// Memory that the allocator keeps its notes in: who takes it must not allocate meanwhile.
    #[test]
    fn memory_of_the_allocator_is_taken() {
        let mut own = Own::new().unwrap();
        let guard = vec![1u8; 64];
        // Freed, and the next that is given for this size.
        let freed = vec![1u8; 6 * PAGE as usize];
        let other = vec![1u8; 64];
        let at = (freed.as_ptr() as u64).next_multiple_of(PAGE);
        drop(freed);
        assert_eq!(own.pin(at, 4 * PAGE, true).map(|parts| parts.len()), Ok(1));
        assert!(own.pin(at - PAGE, PAGE, true).is_ok());
        drop((guard, other));
    }

    #[test]
    fn memory_stays_what_it_was_and_is_in_the_file() {
        let mut own = Own::new().unwrap();
        // Shared with children alone, and with whoever has the file.
        let view = twin::host::client::memory(PAGE, PAGE).unwrap();
        assert!(own.pin(view.as_ptr() as u64, PAGE, true).is_ok());
        let other = Own::new().unwrap();
        other.file().set_len(PAGE).unwrap();
        let map = Map {
            at: 0,
            bytes: PAGE,
            protection: libc::PROT_READ | libc::PROT_WRITE,
            flags: libc::MAP_SHARED,
            offset: 0,
        };
        let at = system::mmap(other.file().as_raw_fd(), map).unwrap();
        assert_eq!(own.pin(at, PAGE, true), Err(libc::EFAULT));

        let map = Map {
            at: 0,
            bytes: 4 * PAGE,
            protection: libc::PROT_READ | libc::PROT_WRITE,
            flags: libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            offset: 0,
        };
        let at = system::mmap(-1, map).unwrap();
        user::write(at + PAGE, b"before").unwrap();
        let one = own.pin(at + PAGE, PAGE, true).unwrap();
        let parts = own.pin(at, 4 * PAGE, true).unwrap();
        assert_eq!((parts.len(), parts[1]), (3, one[0]));
        let mut seen = [0; 6];
        let read = |own: &Own, seen: &mut [u8]| own.file().read_exact_at(seen, one[0].offset);
        read(&own, &mut seen).unwrap();
        assert_eq!(&seen, b"before");
        user::write(at + PAGE, b"behind").unwrap();
        read(&own, &mut seen).unwrap();
        assert_eq!(&seen, b"behind");
        assert!(own.has(at, 1) && !own.has(at + 4 * PAGE, PAGE));
        assert_eq!(own.pin(at, 5 * PAGE, true), Err(libc::EFAULT));

        system::munmap(at, 4 * PAGE).unwrap();
        assert_eq!(own.pin(at, PAGE, true), Err(libc::EFAULT));
        assert!(own.has(at, PAGE), "devices have not heard of it");
        own.forget(at, 2 * PAGE);
        assert!(!own.has(at, 2 * PAGE) && own.has(at + 2 * PAGE, PAGE));
        own.forget(at, 4 * PAGE);
        assert!(!own.has(at, 4 * PAGE));
        read(&own, &mut seen).unwrap();
        assert_eq!(seen, [0; 6], "given back");
    }
}
