//! A record done again, on a new machine, with no program behind it.
//!
//! Each process is one in software ([`Ghost`]): what a call asks of it is answered as it was. Engines go as far
//! as they went before the next thing happened, then that is done. Where they write something else than they
//! did, or a call asks or answers something else, that is a difference; the replay goes on with what the record
//! has.

mod ghost;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::time::{Duration, Instant};

use twin::errno::Result as Called;
use twin::process::Calls;
use twin::record::{Frame, Record};
use twin::rule::Violation;
use twin::watch::{Moment, Watch};
use twin::wire::{Kind, Message};

use crate::connection;
use crate::machine::{self, Machine};
use ghost::{Files, Ghost, Script};
use hcq::sync::{lock, unpoisoned};

/// What a replay has found.
#[derive(Debug)]
pub struct Replay {
    /// The rules that were broken.
    pub violations: Vec<Violation>,
    /// What was different, the first of many of a kind.
    pub differences: Vec<String>,
    /// Processes that began.
    pub processes: usize,
    /// Calls that were made.
    pub calls: usize,
    /// Calls that had not ended where the record does: they were not made.
    pub unended: usize,
    /// Where the engines were at the end.
    pub moment: Moment,
    /// Bytes of shared memory that devices wrote, the same as before.
    pub same: u64,
    /// Bytes that programs wrote there.
    pub taken: u64,
    /// Bytes that devices wrote otherwise.
    pub other: u64,
}

/// Is told a frame before it is done; a call with what it asked and how it ended.
pub type Tell<'a> = &'a mut dyn FnMut(&Frame, &[&Frame]);

/// What a record may say of its machine: what it was like, and nothing of files that are written.
const KEYS: [&str; 19] = [
    "bar",
    "chip",
    "compute",
    "confidential",
    "drain",
    "driver",
    "fault",
    "gpus",
    "gtt",
    "instructions",
    "kernel",
    "kfd",
    "mig",
    "module",
    "seed",
    "target",
    "threads",
    "vram",
    "xcc",
];

/// Does a record again. `more` is added to the config of the machine.
///
/// # Errors
/// What is wrong with the config, or what the host lacks.
pub fn replay(record: &Record, more: &str, tell: Tell) -> Result<Replay, String> {
    for part in record.config.split(',').map(str::trim) {
        let (key, _) = part.split_once('=').unwrap_or((part, ""));
        if !KEYS.contains(&key) && !part.is_empty() {
            return Err(format!(
                "{part:?} is nothing that a record may say of its machine: expected {}",
                KEYS.join(", ")
            ));
        }
    }
    let machine = machine::of(&format!("{},{more}", record.config))?;
    let gate = Arc::new(Gate::default());
    machine.watch(Box::new(Closed(gate.clone())));
    let mut player = Player {
        machine,
        gate,
        files: Arc::default(),
        processes: BTreeMap::new(),
        waiting: BTreeMap::new(),
        behind: 0,
        stuck: STUCK,
        late: LATE,
        noted: BTreeMap::new(),
        broken: Vec::new(),
        replay: Replay {
            violations: Vec::new(),
            differences: Vec::new(),
            processes: 0,
            calls: 0,
            unended: 0,
            moment: Moment::default(),
            same: 0,
            taken: 0,
            other: 0,
        },
    };
    player.play(&record.frames, tell);
    Ok(player.finish(record.cut.is_none()))
}

/// Where engines have to stop, and where they are.
#[derive(Default)]
struct Gate {
    state: Mutex<Reached>,
    changed: Condvar,
}

#[derive(Default)]
struct Reached {
    /// They take no round behind so many.
    limit: u64,
    now: Moment,
    /// Nothing can move.
    idle: bool,
    /// How often this was said.
    said: u64,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Reached> {
        // Numbers alone.
        lock(&self.state)
    }

    fn say(&self, now: Moment, idle: bool) -> bool {
        let mut place = self.lock();
        (place.now, place.idle) = (now, idle);
        place.said += 1;
        self.changed.notify_all();
        !idle && now.rounds < place.limit
    }

    fn open(&self, limit: u64) {
        self.lock().limit = limit;
    }

    /// Lets engines go up to there. Where they are when they stand still: short of it where nothing has moved for
    /// that long.
    fn reach(&self, limit: u64, stuck: Duration, wake: impl Fn()) -> Moment {
        let mut place = self.lock();
        if place.limit == limit && place.now.rounds >= limit {
            return place.now;
        }
        place.limit = limit;
        let said = place.said;
        drop(place);
        wake();
        let (mut moved, mut busy) = (Instant::now(), Instant::now());
        let mut place = self.lock();
        let mut last = place.now.rounds;
        loop {
            // Said since the limit was set: what was said before may be old.
            if place.said > said && place.now.rounds >= limit {
                return place.now;
            }
            if place.now.rounds != last {
                (last, moved) = (place.now.rounds, Instant::now());
            }
            if place.now.rounds != last || !place.idle {
                busy = Instant::now();
            }
            if busy.elapsed() > stuck || moved.elapsed() > LATE {
                return place.now;
            }
            let waited = self.changed.wait_timeout(place, Duration::from_millis(10));
            place = unpoisoned(waited).0;
        }
    }
}

/// The gate, as the machine sees it.
struct Closed(Arc<Gate>);

impl Watch for Closed {
    fn look(&mut self, now: Moment, can_move: &mut dyn FnMut() -> bool) -> bool {
        self.0.say(now, !can_move())
    }

    fn may_go(&mut self, now: Moment) -> bool {
        self.0.say(now, false)
    }
}

/// How long engines may stand still short of where they were: XCCs that share a ring wait a second for each other.
const STUCK: Duration = Duration::from_secs(3);
/// The same, once that has happened.
const STUCK_AGAIN: Duration = Duration::from_millis(100);
/// How long a call, or a round, may take.
const LATE: Duration = Duration::from_secs(20);
/// How many differences of a kind are told.
const TOLD: usize = 4;

/// A call that waits: its end, when it comes.
type Waiting = mpsc::Receiver<(Called<u64>, Option<String>)>;

/// See the front page.
struct Player {
    machine: Arc<dyn Machine>,
    gate: Arc<Gate>,
    files: Arc<Mutex<Files>>,
    processes: BTreeMap<u32, Arc<dyn Calls>>,
    waiting: BTreeMap<u32, Waiting>,
    /// Rounds that engines have not gone as they had.
    behind: u64,
    stuck: Duration,
    /// How long calls may wait that have ended in the record.
    late: Duration,
    /// How many differences there were of each kind.
    noted: BTreeMap<&'static str, usize>,
    /// Rules that the record has.
    broken: Vec<String>,
    replay: Replay,
}

impl Player {
    fn differs(&mut self, kind: &'static str, what: impl fmt::Display) {
        let times = self.noted.entry(kind).or_default();
        *times += 1;
        if *times <= TOLD {
            self.replay.differences.push(format!("{kind}: {what}"));
        }
    }

    fn play(&mut self, frames: &[Frame], tell: Tell) {
        let mut questions: BTreeMap<u32, Vec<&Frame>> = BTreeMap::new();
        for frame in frames.iter().filter(|frame| frame.call != 0) {
            questions.entry(frame.call).or_default().push(frame);
        }
        let mut next = 0;
        while let Some(frame) = frames.get(next) {
            let mut taken = 1;
            match frame.kind {
                Kind::Process => {
                    tell(frame, &[]);
                    self.reach(frame);
                    self.begin(frame);
                }
                Kind::Memory => {
                    let same = |one: &&Frame| {
                        let alone = one.words[2] == frame.words[2];
                        one.kind == Kind::Memory && one.at == frame.at && alone
                    };
                    taken = frames[next..].iter().take_while(same).count();
                    let all = &frames[next..next + taken];
                    if next + taken == frames.len() {
                        // The record was cut: of what was seen at that moment something may be missing.
                        break;
                    }
                    all.iter().for_each(|one| tell(one, &[]));
                    self.reach(frame);
                    self.memory(all);
                }
                Kind::Broken => {
                    tell(frame, &[]);
                    self.broken
                        .push(String::from_utf8_lossy(&frame.bytes).into_owned());
                }
                Kind::Done => {
                    tell(frame, &[]);
                    self.done(frame);
                }
                Kind::Open
                | Kind::Close
                | Kind::Dup
                | Kind::Ioctl
                | Kind::Mmap
                | Kind::Munmap
                | Kind::Ready
                | Kind::Text
                | Kind::Exit => {
                    let about = questions.remove(&frame.call).unwrap_or_default();
                    let about = about.get(1..).unwrap_or_default();
                    tell(frame, about);
                    self.reach(frame);
                    self.call(frame, about);
                }
                Kind::End => {
                    tell(frame, &[]);
                    self.reach(frame);
                }
                // Questions went with their calls.
                _ => tell(frame, &[]),
            }
            next += taken;
        }
    }

    /// Lets engines go as far as they went before that.
    fn reach(&mut self, frame: &Frame) {
        let limit = frame.at.rounds.saturating_sub(self.behind);
        let now = self.gate.reach(limit, self.stuck, || self.machine.go_on());
        if now.rounds < limit {
            let what = format!(
                "engines stand still after {} rounds; in the record {} came after {}",
                now.rounds,
                name(frame),
                frame.at.rounds
            );
            self.differs("progress", what);
            (self.behind, self.stuck) = (frame.at.rounds - now.rounds, STUCK_AGAIN);
        }
    }

    fn begin(&mut self, frame: &Frame) {
        let ghost = Ghost {
            pid: frame.words[0] as u32,
            machine: Arc::downgrade(&self.machine),
            files: self.files.clone(),
        };
        let process = self.machine.attach(Arc::new(ghost));
        self.processes.insert(frame.process, process);
        self.replay.processes += 1;
    }

    /// Memory as it was before the round that comes.
    fn memory(&mut self, frames: &[Frame]) {
        let at = self.machine.pause();
        let expected = frames[0].at;
        if self.behind == 0 && at.rounds == expected.rounds && at.time != expected.time {
            let what = format!(
                "after {} rounds the machine's clock is {}; in the record it was {}",
                at.rounds, at.time, expected.time
            );
            self.differs("time", what);
        }
        let mut data: BTreeMap<u32, Vec<&[u8]>> = BTreeMap::new();
        for frame in frames {
            data.entry(frame.words[0] as u32)
                .or_default()
                .push(&frame.bytes);
        }
        let alone = frames[0].words[2] != 0 && self.behind == 0;
        let mut wrong = Vec::new();
        let mut files = lock(&self.files);
        for (number, place) in &mut files.places {
            let runs = data.remove(number).unwrap_or_default();
            let compared = place.settle(&runs, alone);
            self.replay.same += compared.same;
            self.replay.taken += compared.taken;
            self.replay.other += compared.other;
            if let Some((offset, was, is)) = compared.first {
                let bytes = compared.other;
                wrong.push(format!(
                    "after {} rounds devices have written {bytes} bytes of file {number} otherwise, the first at \
                     {offset:#x}: {is:#04x}; in the record it is {was:#04x}",
                    at.rounds
                ));
            }
        }
        // Doorbells last, as they were rung.
        for (number, runs) in data {
            match files.bells.get(&number) {
                Some(bells) => runs.iter().for_each(|data| bells.ring(data)),
                None => wrong.push(format!("file {number} is not mapped here")),
            }
        }
        drop(files);
        self.machine.go_on();
        for what in wrong {
            self.differs("memory", what);
        }
    }

    /// Makes a call; one that waits ends later.
    fn call(&mut self, frame: &Frame, about: &[&Frame]) {
        let Some((done, questions)) = about
            .split_last()
            .filter(|(last, _)| last.kind == Kind::Done)
        else {
            self.replay.unended += 1;
            return;
        };
        let Some(process) = self.processes.get(&frame.process).cloned() else {
            return self.differs("calls", format!("process {} has not begun", frame.process));
        };
        self.replay.calls += 1;
        let waits = frame.kind == Kind::Ioctl && self.machine.waits(frame.words[1] as u32);
        let mut questions: Vec<Frame> = questions.iter().map(|&one| one.clone()).collect();
        if waits {
            self.patient(frame, &mut questions);
        }
        let script = Script::new(
            frame,
            questions,
            frame.kind == Kind::Ioctl && self.machine.tells_time(frame.words[1] as u32),
        );
        let mut message = Message::new(frame.kind, frame.words);
        message.bytes.clone_from(&frame.bytes);
        if waits {
            let (sender, receiver) = mpsc::channel();
            let started = std::thread::Builder::new().spawn(move || {
                // Nobody waits for it where the replay has given up.
                let _ = sender.send(script.run(|| connection::call(None, &*process, message)));
            });
            match started {
                Ok(_) => drop(self.waiting.insert(frame.call, receiver)),
                Err(error) => self.differs("calls", format!("{}: {error}", name(frame))),
            }
            return;
        }
        self.machine.pause();
        // It may have to wait for engines; nothing else lets them go meanwhile.
        self.gate.open(u64::MAX);
        let ended = script.run(|| match message.kind {
            Kind::Exit => {
                process.exit();
                Ok(0)
            }
            _ => connection::call(None, &*process, message),
        });
        let now = self.machine.pause();
        self.gate.open(now.rounds);
        self.machine.go_on();
        if frame.kind == Kind::Exit {
            self.processes.remove(&frame.process);
            lock(&self.files).exit(frame.process);
        }
        self.compare(frame, ended, done.words[0]);
    }

    /// A wait takes as long as it did, which here is something else.
    fn patient(&self, frame: &Frame, questions: &mut [Frame]) {
        let argument = frame.words[2];
        let of = |kind| {
            let questions = questions.iter();
            let mut found = questions.enumerate().filter(|(_, one)| one.kind == kind);
            found
                .find(|(_, one)| one.words[0] == argument)
                .map(|(i, _)| i)
        };
        let (Some(read), Some(write)) = (of(Kind::Read), of(Kind::Write)) else {
            return;
        };
        let mut before = std::mem::take(&mut questions[read].bytes);
        self.machine
            .wait_as_long(&mut before, &mut questions[write].bytes);
        questions[read].bytes = before;
    }

    /// The end of a call that waited.
    fn done(&mut self, frame: &Frame) {
        let Some(receiver) = self.waiting.remove(&frame.call) else {
            return;
        };
        self.reach(frame);
        match receiver.recv_timeout(self.late) {
            Ok(ended) => self.compare(frame, ended, frame.words[0]),
            Err(_) => {
                self.differs("calls", format!("call {} still waits", frame.call));
                self.late = STUCK_AGAIN;
            }
        }
    }

    fn compare(
        &mut self,
        frame: &Frame,
        (done, otherwise): (Called<u64>, Option<String>),
        was: u64,
    ) {
        if let Some(otherwise) = otherwise {
            self.differs("calls", format!("{}: {otherwise}", name(frame)));
        }
        let is = Message::done(done).words[0];
        if is != was {
            let what = format!(
                "{} ended with {}; in the record with {}",
                name(frame),
                is as i64,
                was as i64
            );
            self.differs("calls", what);
        }
    }

    fn finish(mut self, whole: bool) -> Replay {
        // Those that the record has no end of.
        for process in std::mem::take(&mut self.processes).into_values() {
            self.gate.open(u64::MAX);
            process.exit();
        }
        self.replay.moment = self.gate.lock().now;
        self.replay.violations = self.machine.journal().violations();
        let text = |one: &Violation| format!("{}\n{}", one.rule.name, one.what);
        let broken: Vec<String> = self.replay.violations.iter().map(text).collect();
        let record = std::mem::take(&mut self.broken);
        let count = |all: &[String], one: &String| all.iter().filter(|other| *other == one).count();
        let mut told: Vec<&String> = Vec::new();
        for one in record.iter().chain(&broken) {
            // What came behind the end of a record that was cut is not in it.
            let (was, is) = (count(&record, one), count(&broken, one));
            if was == is || told.contains(&one) || !whole && is > was {
                continue;
            }
            told.push(one);
            let one = one.replace('\n', ": ");
            self.differs(
                "rules",
                format!("broken {is} times, in the record {was} times: {one}"),
            );
        }
        for (kind, times) in std::mem::take(&mut self.noted) {
            if times > TOLD {
                let more = format!("{kind}: and {} more", times - TOLD);
                self.replay.differences.push(more);
            }
        }
        self.replay
    }
}

/// What reports call a frame.
fn name(frame: &Frame) -> String {
    match frame.kind {
        Kind::Memory => "a change of memory".into(),
        kind if frame.call == 0 => format!("{kind:?} of process {}", frame.process),
        kind => format!(
            "call {} ({kind:?} of process {})",
            frame.call, frame.process
        ),
    }
}
