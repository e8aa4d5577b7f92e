//! The same runs on a card. `scripts/silicon-sass` packs them as a program for a machine with one, and
//! what it answered there is compared with the executor here.
//!
//! - `DOORBELL_CASES`: a folder into which each run is written;
//! - `DOORBELL_ANSWERS`: the file that the program wrote, with all that a card answered;
//! - `DOORBELL_SILICON`: a folder of trimmed answers, in place of `tests/golden/sass/silicon`.
//!
//! A run is known by what it reads, not by the code that ran: cards are asked what statements mean.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Grid;
use twin_sass::Chip;

/// A part of memory with a name.
pub struct Part {
    pub at: usize,
    pub len: usize,
    pub name: String,
    /// Bytes of one of its numbers.
    pub each: usize,
    /// Whether a card must answer the same bits: not where results are approximations.
    pub exact: bool,
}

/// What ran.
pub struct Run<'a> {
    pub chip: Chip,
    pub kernel: &'a str,
    pub grid: &'a Grid,
    /// Where memory begins.
    pub base: u64,
    pub parameters: &'a [u64],
    pub before: &'a [u8],
    /// Places where memory holds an address of itself.
    pub addresses: &'a [usize],
    pub parts: &'a [Part],
}

fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    // FNV-1a
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

impl Run<'_> {
    /// What is not zero at the end.
    fn image(&self) -> &[u8] {
        let end = self.before.iter().rposition(|&byte| byte != 0);
        &self.before[..end.map_or(0, |end| end + 1)]
    }

    /// A parameter is an address of this memory, or a number.
    fn parameter(&self, value: u64) -> (&'static str, u64) {
        match value.checked_sub(self.base) {
            Some(at) if at < self.before.len() as u64 => ("pointer", at),
            _ => ("value", value),
        }
    }

    fn grid(&self) -> String {
        let Grid {
            blocks: [bx, by, bz],
            threads: [tx, ty, tz],
            shared,
        } = self.grid;
        format!("blocks {bx} {by} {bz}\nthreads {tx} {ty} {tz}\nshared {shared}\n")
    }

    fn parameters(&self) -> String {
        self.parameters.iter().fold(String::new(), |mut text, &p| {
            let (kind, value) = self.parameter(p);
            writeln!(text, "{kind} {value}").unwrap();
            text
        })
    }

    /// Its name: that of the kernel, and a number made of all that it reads.
    pub fn name(&self) -> String {
        let read = self.grid() + &self.parameters();
        let hash = hash(read.bytes().chain(self.image().iter().copied()));
        format!("{}-{hash:016x}", self.kernel)
    }

    /// Writes it for the program.
    fn write(&self, folder: &Path) {
        let folder = folder.join(self.chip.name());
        std::fs::create_dir_all(&folder).unwrap();
        let bytes = self.before.len();
        let mut text = format!("{}bytes {bytes}\n{}", self.grid(), self.parameters());
        let mut image = self.image().to_vec();
        for &at in self.addresses {
            let address = u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
            image[at..at + 8].copy_from_slice(&(address - self.base).to_le_bytes());
            writeln!(text, "address {at}").unwrap();
        }
        for part in self.parts {
            let exact = if part.exact { "exact" } else { "near" };
            let Part { at, len, each, .. } = part;
            writeln!(text, "part {at} {len} {each} {exact} {}", part.name).unwrap();
        }
        let path = folder.join(self.name());
        std::fs::write(path.with_extension("image"), image).unwrap();
        std::fs::write(path.with_extension("case"), text).unwrap();
    }

    /// Compares memory after the run with what a card answered, and puts the card's approximations there, so
    /// that who checks them checks the card's. Returns the differences.
    fn against(&self, answer: &[u8], after: &mut [u8]) -> Vec<String> {
        let mut wrong = Vec::new();
        for part in self.parts {
            let (theirs, ours) = (&answer[part.at..][..part.len], part.at..part.at + part.len);
            let ours = &mut after[ours];
            if !part.exact {
                ours.copy_from_slice(theirs);
                continue;
            }
            let pairs = ours.chunks(part.each).zip(theirs.chunks(part.each));
            let differ: Vec<_> = pairs.enumerate().filter(|(_, (a, b))| a != b).collect();
            if let Some(&(i, (a, b))) = differ.first() {
                wrong.push(format!(
                    "{}: {} of {} differ; number {i}: the card says {}, the executor {}",
                    part.name,
                    differ.len(),
                    part.len / part.each,
                    hex(b),
                    hex(a),
                ));
            }
        }
        wrong
    }

    /// The same with trimmed answers: a line for each part, its numbers' hash and the first of them.
    fn against_trimmed(&self, text: &str, after: &mut [u8]) -> Vec<String> {
        let case = self.name();
        let mut wrong = Vec::new();
        let prefix = format!("{}-", self.kernel);
        let lines: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with(&prefix))
            .collect();
        let of_case: Vec<Vec<&str>> = lines
            .iter()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .filter(|fields| fields[0] == case)
            .collect();
        if of_case.is_empty() && !lines.is_empty() {
            return vec![format!(
                "{case}: the answers are of other inputs ({}); ask a card again",
                lines[0].split('\t').next().unwrap()
            )];
        }
        for part in self.parts {
            // A statement that is newer than the answers has none.
            let Some(fields) = of_case.iter().find(|fields| fields[1] == part.name) else {
                continue;
            };
            let ours = &mut after[part.at..part.at + part.len];
            let theirs = unhex(fields[3]);
            if !part.exact {
                ours[..theirs.len()].copy_from_slice(&theirs);
                continue;
            }
            let mut pairs = ours.chunks(part.each).zip(theirs.chunks(part.each));
            if let Some(i) = pairs.position(|(a, b)| a != b) {
                let at = i * part.each..(i + 1) * part.each;
                let (a, b) = (hex(&ours[at.clone()]), hex(&theirs[at]));
                wrong.push(format!(
                    "{}: number {i}: the card says {b}, the executor {a}",
                    part.name
                ));
            } else if format!("{:016x}", hash(ours.iter().copied())) != fields[2] {
                wrong.push(format!(
                    "{}: it differs in a number of which the answer was not kept",
                    part.name
                ));
            }
        }
        wrong
    }
}

/// A number's bytes, the highest first.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().fold("0x".into(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2).map(|i| &text[i..i + 2]);
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

/// What the program wrote: a head of lines `KEY VALUE`, an empty line, then a record for each case.
pub struct Answers<'a> {
    head: &'a str,
    records: &'a [u8],
}

impl<'a> Answers<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let end = bytes.windows(2).position(|two| two == b"\n\n").unwrap();
        Self {
            head: std::str::from_utf8(&bytes[..=end]).unwrap(),
            records: &bytes[end + 2..],
        }
    }

    pub fn says(&self, key: &str) -> &'a str {
        let line = |line: &'a str| line.strip_prefix(key)?.strip_prefix(' ');
        self.head.lines().find_map(line).unwrap_or_default()
    }

    /// Memory after a case, from memory before it; or why there is none.
    pub fn of(&self, case: &str, before: &[u8]) -> Result<Vec<u8>, String> {
        let mut rest = self.records;
        let line = |rest: &mut &'a [u8], key: &str| {
            let end = rest.iter().position(|&byte| byte == b'\n').unwrap();
            let text = std::str::from_utf8(&rest[..end]).unwrap();
            *rest = &rest[end + 1..];
            text.strip_prefix(key).unwrap().trim_start().to_string()
        };
        while !rest.is_empty() {
            let name = line(&mut rest, "case");
            let status = line(&mut rest, "status");
            let pieces: usize = line(&mut rest, "pieces").parse().unwrap();
            let mut after = before.to_vec();
            for _ in 0..pieces {
                let number = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().unwrap());
                let (at, len) = (number(0) as usize, number(8) as usize);
                if name == case {
                    after[at..at + len].copy_from_slice(&rest[16..16 + len]);
                }
                rest = &rest[16 + len..];
            }
            if name == case && status != "ok" {
                return Err(format!("{case}: the card says: {status}"));
            }
            if name == case {
                return Ok(after);
            }
        }
        Err(format!(
            "{case}: the answers have no such case; pack the program again"
        ))
    }
}

/// After a run: writes it, or compares it, as the environment asks.
///
/// # Panics
/// When a card answered something else.
pub fn ran(run: &Run, after: &mut [u8]) {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut wrong = Vec::new();
    if let Some(folder) = folder("DOORBELL_CASES") {
        run.write(&folder);
    }
    if let Some(file) = folder("DOORBELL_ANSWERS") {
        let bytes = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let answers = Answers::new(&bytes);
        if answers.says("chip") == run.chip.name() {
            match answers.of(&run.name(), run.before) {
                Ok(answer) => wrong = run.against(&answer, after),
                Err(why) => wrong.push(why),
            }
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/sass/silicon");
    let golden = folder("DOORBELL_SILICON").unwrap_or(golden);
    let path = golden.join(format!("{}.txt", run.chip.name()));
    if let Ok(text) = std::fs::read_to_string(path) {
        wrong.extend(run.against_trimmed(&text, after));
    }
    assert!(
        wrong.is_empty(),
        "{} on {}:\n{}",
        run.kernel,
        run.chip.name(),
        wrong.join("\n")
    );
}
