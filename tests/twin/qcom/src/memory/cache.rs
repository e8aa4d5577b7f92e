//! The caches of the GPU: UCHE, which all of it shares, and before it those of textures and of instructions.
//!
//! UCHE holds what shader cores write until it is flushed; what it has read it keeps until it is invalidated, also when
//! somebody else has changed DRAM. Texture caches keep lines when UCHE has newer ones. The command processor reads and
//! writes DRAM.
//!
//! Source: Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, `tu_cmd_flush_bits`, and tu_cmd_buffer.cc, `tu6_emit_flushes`:
//! CACHE_FLUSH writes UCHE back so that other clients (CP, CPU) see it, CACHE_INVALIDATE drops UCHE and texture caches.
//! Lines of 64 bytes, and that an invalidation keeps dirty bytes, are guesses.

use std::collections::HashMap;
use std::sync::Arc;

use super::{LINE, Object};

const BYTES: usize = LINE as usize;

/// A line by its object, and its number there.
type Key = (u64, u64);

/// A bit for each byte of a line.
fn bits(inside: usize, bytes: usize) -> u64 {
    let ones = match bytes {
        BYTES.. => u64::MAX,
        some => (1 << some) - 1,
    };
    ones << inside
}

/// A line of UCHE.
struct Line {
    object: Arc<Object>,
    data: [u8; BYTES],
    /// Bytes that it holds.
    valid: u64,
    /// Bytes that DRAM does not have yet.
    dirty: u64,
}

/// What an access has seen that is old, by the cache that had it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stale {
    /// UCHE has not seen what DRAM has: CACHE_INVALIDATE is missing.
    Uche,
    /// The texture cache has not seen what UCHE or DRAM have: CACHE_INVALIDATE is missing.
    Texture,
    /// The instruction cache has not seen them: SP_UPDATE_CNTL is missing.
    Instruction,
    /// The CPU's cache has what DRAM does not have: a cache operation of the kernel is missing.
    Cpu,
    /// UCHE has what DRAM does not have, where somebody else reads: CACHE_FLUSH_TS is missing.
    Dirty,
}

/// A cache before UCHE.
type Small = HashMap<Key, [u8; BYTES]>;

/// See the front page.
#[derive(Default)]
pub struct Caches {
    uche: HashMap<Key, Line>,
    texture: Small,
    instruction: Small,
}

/// Calls `each` for the pieces of a range by lines: the line, where in it, which of the bytes.
fn pieces(at: u64, bytes: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < bytes {
        let here = at + done as u64;
        let inside = (here % LINE) as usize;
        let piece = (bytes - done).min(BYTES - inside);
        each(here / LINE, inside, done..done + piece);
        done += piece;
    }
}

/// The bytes of a line that differ.
fn differs(one: &[u8; BYTES], other: &[u8; BYTES]) -> u64 {
    let pairs = one.iter().zip(other).enumerate();
    pairs.fold(0, |all, (i, (a, b))| all | u64::from(a != b) << i)
}

impl Caches {
    /// A line as it is: DRAM, and what UCHE has newer.
    fn peek(&self, object: &Object, line: u64) -> [u8; BYTES] {
        let mut data = [0; BYTES];
        object.dram().read(line * LINE, &mut data);
        if let Some(held) = self.uche.get(&(object.id, line)) {
            for i in (0..BYTES).filter(|i| held.dirty >> i & 1 == 1) {
                data[i] = held.data[i];
            }
        }
        data
    }

    /// The bytes of a line through UCHE, which keeps them.
    fn fill(
        &mut self,
        object: &Arc<Object>,
        line: u64,
        wanted: u64,
    ) -> ([u8; BYTES], Option<Stale>) {
        let mut there = [0; BYTES];
        object.dram().read(line * LINE, &mut there);
        let held = self.uche.entry((object.id, line)).or_insert_with(|| Line {
            object: object.clone(),
            data: [0; BYTES],
            valid: 0,
            dirty: 0,
        });
        let mut stale = None;
        if differs(&held.data, &there) & held.valid & !held.dirty & wanted != 0 {
            stale = Some(Stale::Uche);
        }
        if wanted & !held.valid != 0 {
            // What is not there yet comes from DRAM, all of the line at once.
            for i in (0..BYTES).filter(|i| held.valid >> i & 1 == 0) {
                held.data[i] = there[i];
            }
            held.valid = u64::MAX;
            let cached = object.cpu();
            if cached.is_some_and(|cpu| cpu.dirty(line * LINE, LINE).is_some()) {
                stale = Some(Stale::Cpu);
            }
        }
        (held.data, stale)
    }

    /// Reads through UCHE.
    pub fn read(&mut self, object: &Arc<Object>, at: u64, out: &mut [u8]) -> Option<Stale> {
        let mut stale = None;
        pieces(at, out.len(), |line, inside, range| {
            let bytes = range.len();
            let (data, old) = self.fill(object, line, bits(inside, bytes));
            stale = stale.or(old);
            out[range].copy_from_slice(&data[inside..inside + bytes]);
        });
        stale
    }

    /// Writes into UCHE.
    pub fn write(&mut self, object: &Arc<Object>, at: u64, data: &[u8]) {
        pieces(at, data.len(), |line, inside, range| {
            let mask = bits(inside, range.len());
            let held = self.uche.entry((object.id, line)).or_insert_with(|| Line {
                object: object.clone(),
                data: [0; BYTES],
                valid: 0,
                dirty: 0,
            });
            held.data[inside..inside + range.len()].copy_from_slice(&data[range]);
            held.valid |= mask;
            held.dirty |= mask;
        });
    }

    /// Reads through a cache before UCHE.
    fn small(
        &mut self,
        which: fn(&mut Caches) -> &mut Small,
        old: Stale,
        (object, at): (&Arc<Object>, u64),
        out: &mut [u8],
    ) -> Option<Stale> {
        let mut stale = None;
        pieces(at, out.len(), |line, inside, range| {
            let key = (object.id, line);
            let bytes = range.len();
            let data = match which(self).get(&key).copied() {
                Some(held) => {
                    let now = self.peek(object, line);
                    if differs(&held, &now) & bits(inside, bytes) != 0 {
                        stale = stale.or(Some(old));
                    }
                    held
                }
                None => {
                    let (data, old) = self.fill(object, line, u64::MAX);
                    stale = stale.or(old);
                    which(self).insert(key, data);
                    data
                }
            };
            out[range].copy_from_slice(&data[inside..inside + bytes]);
        });
        stale
    }

    /// Reads through the texture cache.
    pub fn texture(&mut self, object: &Arc<Object>, at: u64, out: &mut [u8]) -> Option<Stale> {
        self.small(|all| &mut all.texture, Stale::Texture, (object, at), out)
    }

    /// Reads through the instruction cache.
    pub fn instruction(&mut self, object: &Arc<Object>, at: u64, out: &mut [u8]) -> Option<Stale> {
        let which: fn(&mut Caches) -> &mut Small = |all| &mut all.instruction;
        self.small(which, Stale::Instruction, (object, at), out)
    }

    /// What somebody who reads DRAM does not see of a range.
    pub fn unseen(&self, object: &Object, at: u64, bytes: usize) -> Option<Stale> {
        let mut stale = None;
        pieces(at, bytes, |line, inside, range| {
            let held = self.uche.get(&(object.id, line));
            if held.is_some_and(|held| held.dirty & bits(inside, range.len()) != 0) {
                stale = Some(Stale::Dirty);
            }
        });
        let cpu = object.cpu();
        let dirty = cpu.and_then(|cpu| cpu.dirty(at / LINE * LINE, bytes as u64 + at % LINE));
        stale.or(dirty.map(|_| Stale::Cpu))
    }

    /// CACHE_FLUSH: DRAM has all that was written.
    pub fn flush(&mut self) {
        for ((_, line), held) in &mut self.uche {
            let mut i = 0;
            while held.dirty >> i != 0 {
                if held.dirty >> i & 1 == 0 {
                    i += 1;
                    continue;
                }
                let run = (held.dirty >> i).trailing_ones() as usize;
                let dram = held.object.dram();
                dram.write(line * LINE + i as u64, &held.data[i..i + run]);
                held.dirty &= !bits(i, run);
                i += run;
                if i >= BYTES {
                    break;
                }
            }
        }
    }

    /// CACHE_INVALIDATE: nothing is held but what DRAM does not have.
    pub fn invalidate(&mut self) {
        self.texture.clear();
        self.uche.retain(|_, held| {
            held.valid = held.dirty;
            held.dirty != 0
        });
    }

    /// SP_UPDATE_CNTL with CS_STATE: code is fetched anew.
    pub fn invalidate_instructions(&mut self) {
        self.instruction.clear();
    }

    /// The GPU was reset: all that was held is gone.
    pub fn reset(&mut self) {
        *self = Caches::default();
    }

    /// How many lines keep an object.
    pub fn held(&self, object: u64) -> usize {
        self.uche.keys().filter(|(of, _)| *of == object).count()
    }

    /// An object has gone. Returns whether something of it was not in DRAM.
    pub fn forget(&mut self, object: u64) -> bool {
        let mut lost = false;
        self.uche.retain(|(of, _), held| {
            lost |= *of == object && held.dirty != 0;
            *of != object
        });
        self.texture.retain(|(of, _), _| *of != object);
        self.instruction.retain(|(of, _), _| *of != object);
        lost
    }
}

#[cfg(test)]
mod tests {
    use twin::host::PAGE;

    use super::*;

    fn object(cached: bool) -> Arc<Object> {
        Arc::new(Object::zeros(1, PAGE, "test".into(), cached).unwrap())
    }

    fn byte(object: &Object, at: u64) -> u8 {
        let mut byte = [0];
        object.dram().read(at, &mut byte);
        byte[0]
    }

    #[test]
    fn what_is_written_stays_in_uche_until_it_is_flushed() {
        let (object, mut caches) = (object(false), Caches::default());
        caches.write(&object, 62, &[1, 2, 3, 4]);
        assert_eq!(byte(&object, 62), 0);
        assert_eq!(caches.unseen(&object, 64, 1), Some(Stale::Dirty));
        assert_eq!(caches.unseen(&object, 66, 4), None);
        let mut out = [0; 4];
        assert_eq!(caches.read(&object, 62, &mut out), None);
        assert_eq!(out, [1, 2, 3, 4]);
        caches.invalidate();
        caches.flush();
        assert_eq!((byte(&object, 62), byte(&object, 65)), (1, 4));
        assert_eq!(caches.unseen(&object, 64, 1), None);
    }

    #[test]
    fn old_lines_are_read_until_they_are_invalidated() {
        let (object, mut caches) = (object(false), Caches::default());
        let mut out = [0];
        assert_eq!(caches.read(&object, 0, &mut out), None);
        object.dram().write(0, &[5]);
        assert_eq!(caches.read(&object, 0, &mut out), Some(Stale::Uche));
        assert_eq!(out, [0]);
        caches.invalidate();
        assert_eq!(caches.read(&object, 0, &mut out), None);
        assert_eq!(out, [5]);
    }

    #[test]
    fn textures_and_code_have_caches_of_their_own() {
        let (object, mut caches) = (object(false), Caches::default());
        let mut out = [0; 2];
        assert_eq!(caches.texture(&object, 8, &mut out), None);
        assert_eq!(caches.instruction(&object, 8, &mut out), None);
        caches.write(&object, 8, &[7]);
        assert_eq!(caches.texture(&object, 8, &mut out), Some(Stale::Texture));
        assert_eq!(caches.texture(&object, 9, &mut out[..1]), None);
        let old = caches.instruction(&object, 8, &mut out);
        assert_eq!((old, out), (Some(Stale::Instruction), [0, 0]));
        caches.invalidate();
        assert_eq!(caches.texture(&object, 8, &mut out), None);
        assert_eq!(out, [7, 0]);
        caches.invalidate_instructions();
        assert_eq!(caches.instruction(&object, 8, &mut out), None);
        assert!(caches.forget(1) && !caches.forget(1));
    }

    #[test]
    fn the_cache_of_the_cpu_is_not_seen() {
        let (object, mut caches) = (object(true), Caches::default());
        object.seen().write(0, &[9]);
        let mut out = [0];
        assert_eq!(caches.read(&object, 0, &mut out), Some(Stale::Cpu));
        assert_eq!(out, [0]);
        assert_eq!(caches.unseen(&object, 4, 4), Some(Stale::Cpu));
        let cpu = object.cpu().unwrap();
        cpu.clean(object.dram(), 0, PAGE);
        caches.invalidate();
        assert_eq!(caches.read(&object, 0, &mut out), None);
        assert_eq!(out, [9]);
    }
}
