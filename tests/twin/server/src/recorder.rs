//! A record that is being written: what processes ask, and what is in memory that they share with devices when
//! devices look there. See [`twin::record`].
//!
//! So that a replay can do the same at the same moments, calls come one after the other while they are
//! recorded, and engines stand still meanwhile; but a call that waits for an event is written when it begins
//! and when it ends. While engines move, programs stand still, with a turn now and then where that takes long: so
//! what devices write is told from what programs do, and devices see no store of a program that the record has
//! later. Programs ring doorbells of their own, whose values go to the machine's when it looks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::sync::lock;
use twin::errno::{Errno, Result};
use twin::host::{Identity, Mapping, Part, identity};
use twin::record::{Frame, Runs, Writer};
use twin::watch::{Moment, Watch};
use twin::wire::{Kind, Message, WORDS};

use crate::machine::{Bells, Machine};
use crate::place::Place;
use crate::programs::Programs;

/// See the front page.
pub struct Recorder {
    machine: Arc<dyn Machine>,
    /// Held by the call that is recorded.
    one: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    out: Writer,
    /// Why the record has ended before its time.
    failed: Option<io::Error>,
    ended: bool,
    calls: u32,
    /// Files by what they are, from 1.
    numbers: BTreeMap<Identity, u32>,
    places: BTreeMap<u32, Place>,
    /// Which process has mapped which file where: process, address, bytes.
    mapped: Vec<(u32, u32, u64, u64)>,
    bells: BTreeMap<u32, Page>,
    programs: Programs,
    /// Rounds when memory was looked at last.
    looked: Option<u64>,
    /// Broken rules that are in the record.
    broken: usize,
}

/// A page of doorbells: that of the machine, and what programs have in its place.
struct Page {
    kind: Bells,
    machine: Mapping,
    program: Mapping,
    /// What both were.
    seen: Vec<u64>,
}

/// A doorbell that has been rung: the file, where in it, and what was written.
type Rung = (u32, u64, Vec<u8>);

/// A call that is recorded.
struct Call {
    questions: Vec<Frame>,
    /// The offset of a file that it maps.
    offset: u64,
}

thread_local! {
    /// What this thread does.
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

fn word(result: Result<u64>) -> u64 {
    Message::done(result).words[0]
}

/// Notes a question of the call that this thread does, with its answer; where there is none, nobody asks.
pub fn note(kind: Kind, words: [u64; WORDS - 1], result: Result<u64>, bytes: &[u8]) {
    CALL.with_borrow_mut(|call| {
        let Some(call) = call else {
            return;
        };
        let [a, b, c, d, e] = words;
        call.questions.push(Frame {
            kind,
            process: 0,
            call: 0,
            at: Moment::default(),
            words: [a, b, c, d, e, word(result)],
            bytes: bytes.to_vec(),
        });
    });
}

/// Engines stand still for as long as this lives.
struct Paused<'a> {
    machine: &'a dyn Machine,
    _one: MutexGuard<'a, ()>,
    at: Moment,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.machine.go_on();
    }
}

impl Recorder {
    /// Begins a record of a machine of that config, and watches it from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(
        path: &Path,
        config: &str,
        machine: &Arc<dyn Machine>,
    ) -> io::Result<Arc<Recorder>> {
        let recorder = Arc::new(Recorder {
            machine: machine.clone(),
            one: Mutex::default(),
            state: Mutex::new(State {
                out: Writer::create(path, config)?,
                failed: None,
                ended: false,
                calls: 0,
                numbers: BTreeMap::new(),
                places: BTreeMap::new(),
                mapped: Vec::new(),
                bells: BTreeMap::new(),
                programs: Programs::default(),
                looked: None,
                broken: 0,
            }),
        });
        machine.watch(Box::new(Looks(Arc::downgrade(&recorder))));
        Ok(recorder)
    }

    fn pause(&self) -> Paused<'_> {
        let one = lock(&self.one);
        Paused {
            at: self.machine.pause(),
            machine: &*self.machine,
            _one: one,
        }
    }

    /// A process begins: `begin` attaches it.
    pub fn process<T>(&self, process: u32, pid: u32, begin: impl FnOnce() -> T) -> T {
        let paused = self.pause();
        let begun = begin();
        let frame = Frame {
            kind: Kind::Process,
            process,
            call: 0,
            at: paused.at,
            words: [pid.into(), 0, 0, 0, 0, 0],
            bytes: Vec::new(),
        };
        let mut state = lock(&self.state);
        state.write(&frame);
        state.programs.begin(process, pid);
        drop(state);
        begun
    }

    /// A call of a process, which `run` does.
    pub fn call(
        &self,
        process: u32,
        (kind, words, bytes): (Kind, [u64; WORDS], &[u8]),
        run: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let waits = kind == Kind::Ioctl && self.machine.waits(words[1] as u32);
        let before = self.pause();
        let mut frame = Frame {
            kind,
            process,
            call: 0,
            at: before.at,
            words,
            bytes: bytes.to_vec(),
        };
        let were_still = {
            let mut state = lock(&self.state);
            // It may have to ask them.
            let were_still = state.programs.are_still() && !waits;
            if were_still {
                state.changes(frame.at, true);
                state.programs.go_on();
            }
            // What was rung before a call is heard before it, where that is asked for.
            if !waits && state.is_rung() {
                state.programs.stop();
                state.changes(frame.at, false);
                state.ring(frame.at);
                state.programs.go_on();
            } else if kind == Kind::Munmap {
                state.changes(frame.at, false);
            }
            state.calls += 1;
            frame.call = state.calls;
            state.write(&frame);
            were_still
        };
        let before = (!waits).then_some(before);
        let (questions, offset) = (Vec::new(), words[5]);
        CALL.set(Some(Call { questions, offset }));
        let result = run();
        let questions = CALL.take().map_or_else(Vec::new, |call| call.questions);
        let mut paused = before.unwrap_or_else(|| self.pause());
        // Where it had to wait for engines, these have gone on.
        paused.at = self.machine.pause();
        let at = paused.at;
        let mut state = lock(&self.state);
        for question in questions {
            let call = frame.call;
            state.write(&Frame {
                process,
                call,
                at,
                ..question
            });
        }
        state.write(&Frame {
            kind: Kind::Done,
            at,
            words: [word(result), 0, 0, 0, 0, 0],
            bytes: Vec::new(),
            ..frame
        });
        state.tell(&*self.machine, at);
        state.unring();
        if kind == Kind::Exit {
            state.programs.end(process);
            state.mapped.retain(|one| one.0 != process);
            state.forget();
        }
        if were_still {
            state.programs.stop();
            state.changes(at, false);
        }
        result
    }

    /// The file of what is mapped, which the process gets: that of memory itself, or of doorbells of its own.
    /// With its number.
    ///
    /// # Errors
    /// What the system says.
    pub fn mapping(&self, of: &Mapping, protection: i32) -> Result<(u32, OwnedFd)> {
        let file = own(of.file().ok_or(Errno::EINVAL)?)?;
        let offset = CALL.with_borrow(|call| call.as_ref().map_or(0, |call| call.offset));
        let bells = self.machine.bells(offset, of);
        let mut state = lock(&self.state);
        let number = state.number(of.identity().ok_or(Errno::EINVAL)?);
        let Some(kind) = bells else {
            // What the process may not touch is the device's alone.
            if protection != 0 {
                state.place(number, file.try_clone().map_err(|_| Errno::EMFILE)?)?;
            }
            return Ok((number, file));
        };
        let page = match state.bells.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Page::new(kind, file.as_fd(), of.bytes())?),
        };
        Ok((number, own(page.program.file().ok_or(Errno::EINVAL)?)?))
    }

    /// A process has mapped a file.
    pub fn mapped(&self, process: u32, file: u32, at: u64, bytes: u64) {
        lock(&self.state).mapped.push((process, file, at, bytes));
    }

    /// A process has taken away what it had mapped.
    pub fn unmapped(&self, process: u32, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        let mut state = lock(&self.state);
        let gone = |&(of, _, first, bytes): &(u32, u32, u64, u64)| {
            of == process && first >= at && first + bytes <= end
        };
        state.mapped.retain(|one| !gone(one));
        state.forget();
    }

    /// The number of a file with memory of a process, which may have become larger.
    ///
    /// # Errors
    /// What the system says.
    pub fn pinned(&self, process: u32, file: BorrowedFd<'_>) -> Result<u32> {
        let file = own(file)?;
        let mut state = lock(&self.state);
        let number = state.number(which(&file)?);
        state.place(number, file)?;
        // For as long as the process lives: it is all in one file.
        let all = (process, number, u64::MAX, 0);
        if !state.mapped.contains(&all) {
            state.mapped.push(all);
        }
        Ok(number)
    }

    /// The number of a file that a descriptor stands for.
    pub fn number(&self, of: Option<Identity>) -> u32 {
        of.map_or(0, |identity| lock(&self.state).number(identity))
    }

    /// The end of the record.
    ///
    /// # Errors
    /// What the system has said when the record could not be written.
    pub fn finish(&self) -> io::Result<()> {
        let paused = self.pause();
        let mut state = lock(&self.state);
        state.tell(&*self.machine, paused.at);
        let end = Frame {
            kind: Kind::End,
            process: 0,
            call: 0,
            at: paused.at,
            words: [state.calls.into(), 0, 0, 0, 0, 0],
            bytes: Vec::new(),
        };
        state.write(&end);
        state.ended = true;
        state.failed.take().map_or(Ok(()), Err)
    }
}

fn own(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    file.try_clone_to_owned().map_err(|_| Errno::EMFILE)
}

fn which(file: &OwnedFd) -> Result<Identity> {
    let file = file.try_clone().map_err(|_| Errno::EMFILE)?;
    identity(&File::from(file)).ok_or(Errno::EFAULT)
}

impl State {
    /// What could not be written once is not tried again: there would be a hole.
    fn write(&mut self, frame: &Frame) {
        if self.failed.is_none() && !self.ended {
            self.failed = self.out.write(frame).err();
        }
    }

    fn number(&mut self, identity: Identity) -> u32 {
        let next = self.numbers.len() as u32 + 1;
        *self.numbers.entry(identity).or_insert(next)
    }

    fn place(&mut self, number: u32, file: OwnedFd) -> Result {
        match self.places.get_mut(&number) {
            Some(place) => place.grown(),
            None => {
                let place = Place::new(File::from(file))?;
                self.places.insert(number, place);
                Ok(())
            }
        }
    }

    /// Lets go of what nobody has mapped any more.
    fn forget(&mut self) {
        let mapped = &self.mapped;
        self.places
            .retain(|number, _| mapped.iter().any(|(_, file, ..)| file == number));
    }

    /// Writes what has changed in memory; whether programs have stood still meanwhile.
    fn changes(&mut self, at: Moment, alone: bool) {
        let mut places = std::mem::take(&mut self.places);
        for (number, place) in &mut places {
            place.changes(|runs| self.write(&memory(*number, at, runs, (false, alone))));
        }
        self.places = places;
        self.looked = Some(at.rounds);
    }

    /// Whether a doorbell has been rung.
    fn is_rung(&self) -> bool {
        self.bells.values().any(|page| match page.kind {
            Bells::Taken(at) => {
                let mut token = [0xff; 4];
                page.program.read(at, &mut token);
                token != [0xff; 4]
            }
            Bells::Kept => {
                let mut words = page.seen.iter().enumerate();
                words.any(|(i, seen)| page.program.load64(i * 8) != *seen)
            }
        })
    }

    /// Takes the doorbells that have been rung.
    fn rung(&mut self) -> Vec<Rung> {
        let mut rung = Vec::new();
        for (number, page) in &self.bells {
            if let Bells::Taken(at) = page.kind {
                let value = page.program.swap32(at as usize, u32::MAX);
                if value != u32::MAX {
                    rung.push((*number, at, value.to_le_bytes().to_vec()));
                }
                continue;
            }
            for (i, seen) in page.seen.iter().enumerate() {
                let value = page.program.load64(i * 8);
                if value != *seen {
                    rung.push((*number, i as u64 * 8, value.to_le_bytes().to_vec()));
                }
            }
        }
        rung
    }

    /// Hands on the doorbells that have been rung.
    fn ring(&mut self, now: Moment) {
        let mut frames: BTreeMap<u32, Runs> = BTreeMap::new();
        for (number, at, value) in self.rung() {
            let Some(page) = self.bells.get_mut(&number) else {
                continue;
            };
            page.machine.write(at, &value);
            if let Ok(value) = value[..].try_into() {
                page.seen[at as usize / 8] = u64::from_le_bytes(value);
            }
            frames.entry(number).or_default().push(at, &value);
        }
        for (number, runs) in frames {
            self.write(&memory(number, now, runs, (true, false)));
        }
    }

    /// Doorbells that a call has made silent.
    fn unring(&mut self) {
        let kept = |page: &&mut Page| page.kind == Bells::Kept;
        for page in self.bells.values_mut().filter(kept) {
            for (i, seen) in page.seen.iter_mut().enumerate() {
                let value = page.machine.load64(i * 8);
                if value != *seen {
                    page.program.store64(i * 8, value);
                    *seen = value;
                }
            }
        }
    }

    /// Rules that have been broken.
    fn tell(&mut self, machine: &dyn Machine, at: Moment) {
        for broken in machine.journal().violations_from(self.broken) {
            self.broken += 1;
            self.write(&Frame {
                kind: Kind::Broken,
                process: 0,
                call: 0,
                at,
                words: [0; WORDS],
                bytes: format!("{}\n{}", broken.rule.name, broken.what).into_bytes(),
            });
        }
    }
}

fn memory(file: u32, at: Moment, runs: Runs, (bells, alone): (bool, bool)) -> Frame {
    Frame {
        kind: Kind::Memory,
        process: 0,
        call: 0,
        at,
        words: [file.into(), bells.into(), alone.into(), 0, 0, 0],
        bytes: runs.into_bytes(),
    }
}

impl Page {
    fn new(kind: Bells, machine: BorrowedFd<'_>, bytes: u64) -> Result<Page> {
        let machine = Mapping::of_parts(machine, &[Part { offset: 0, bytes }])?;
        let program = Mapping::new(bytes)?;
        let words = 0..bytes as usize / 8;
        let seen: Vec<u64> = words.map(|i| machine.load64(i * 8)).collect();
        for (i, value) in seen.iter().enumerate() {
            program.store64(i * 8, *value);
        }
        Ok(Page {
            kind,
            machine,
            program,
            seen,
        })
    }
}

/// Looks when the machine does.
struct Looks(Weak<Recorder>);

impl Watch for Looks {
    fn look(&mut self, now: Moment, can_move: &mut dyn FnMut() -> bool) -> bool {
        let Some(recorder) = self.0.upgrade() else {
            return can_move();
        };
        let mut state = lock(&recorder.state);
        let state = &mut *state;
        if state.programs.are_still() {
            // Engines have moved: devices alone have written.
            if !can_move() {
                state.changes(now, true);
                state.programs.go_on();
                return false;
            }
            if !state.programs.are_due() {
                return true;
            }
            state.changes(now, true);
            state.programs.have_a_turn();
        } else if state.is_rung() || can_move() {
            state.programs.stop();
        } else {
            if state.looked != Some(now.rounds) {
                state.changes(now, false);
            }
            return false;
        }
        // What programs have written before engines go on.
        state.changes(now, false);
        state.ring(now);
        let go = can_move();
        if !go {
            state.programs.go_on();
        }
        go
    }

    fn may_go(&mut self, _: Moment) -> bool {
        true
    }
}
