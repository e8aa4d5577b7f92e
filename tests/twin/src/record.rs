//! A record of what processes asked of a machine, and of what they and devices wrote, as a file.
//!
//! It is a list of the messages that went through the connections of [`crate::wire`], each with its process,
//! its call and its moment. Numbers are little-endian.
//!
//! | bytes | at the start of the file |
//! |---|---|
//! | 16 | `doorbell record` and a newline |
//! | 4 | the version, [`VERSION`] |
//! | 4 | bytes of the config |
//! | | the config of the machine, as text |
//! | 4 | CRC-32 of all of this |
//!
//! Then come frames:
//!
//! | bytes | of a frame |
//! |---|---|
//! | 4 | bytes of its data, as they are here |
//! | 4 | CRC-32 of the rest of the frame |
//! | 2, 2 | its [`Kind`]; 1 where the data is packed (zlib), else 0 |
//! | 4, 4 | the process, from 1; the call, from 1, or 0 |
//! | 4 | bytes of the data, unpacked |
//! | 8, 8 | its [`Moment`]: rounds, time |
//! | 48 | six words |
//! | | the data |
//!
//! - `Process` begins one: its number in the system. `Exit` is a call.
//! - A call (`Open` to `Text`, with the words and bytes of [`crate::wire`]) stands where it began; its questions
//!   and `Done` follow, maybe later. The last word of a question is its result.
//! - `Read`, `Write`: address, bytes; what was there, or came there. `Pin`: address, bytes, whether to be
//!   written, file; its parts. `Map`: address, bytes, protection, flags and file in halves of a word, offset.
//!   `Unmap`: address, bytes. `Descriptor`: file. `File`: descriptor, file. Files are numbers from 1; 0 is none.
//! - `Memory`: file, 1 where these are doorbells, 1 where programs stood still since memory was looked at last, so that
//!   devices alone have written this. The data are runs: where in the file, how many bytes, and
//!   these. They were seen before the round that begins at this moment.
//! - `Broken`: the name of the rule, a newline, and what was done.
//! - `End`: how many calls there were. A file without it was not finished, and is good as far as it goes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::watch::Moment;
use crate::wire::{Kind, WORDS};

const MAGIC: &[u8; 16] = b"doorbell record\n";
/// What this reads and writes.
pub const VERSION: u32 = 1;
/// More data than a frame has; memory is cut into pieces of less.
const MOST: usize = 64 << 20;
/// From here on data is packed.
const WORTH: usize = 128;

/// A piece of a record; see the front page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Whose.
    pub process: u32,
    /// Which call it is, or belongs to.
    pub call: u32,
    /// When.
    pub at: Moment,
    /// With which numbers.
    pub words: [u64; WORDS],
    /// With which data.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    bytes: U32,
    check: U32,
    kind: U16,
    packed: U16,
    process: U32,
    call: U32,
    plain: U32,
    rounds: U64,
    time: U64,
    words: [U64; WORDS],
}

/// Where what the checksum is of begins.
const CHECKED: usize = 8;

impl Head {
    fn check_of(&self, data: &[u8]) -> u32 {
        let mut check = crc32fast::Hasher::new();
        check.update(&self.as_bytes()[CHECKED..]);
        check.update(data);
        check.finalize()
    }
}

/// A record that is being written.
pub struct Writer(File);

impl Writer {
    /// Begins one of a machine with that config.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, config: &str) -> io::Result<Writer> {
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend((config.len() as u32).to_le_bytes());
        header.extend(config.as_bytes());
        header.extend(crc32fast::hash(&header).to_le_bytes());
        // It has memory of programs, which is nobody else's business.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(path)?;
        file.write_all(&header)?;
        Ok(Writer(file))
    }

    /// Adds a frame. It is in the file on return, whatever becomes of this process.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, frame: &Frame) -> io::Result<()> {
        let plain = &frame.bytes;
        if plain.len() > MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut packed = Vec::new();
        if plain.len() >= WORTH {
            let mut encoder = ZlibEncoder::new(&mut packed, Compression::fast());
            encoder.write_all(plain)?;
            encoder.finish()?;
        }
        let is_packed = !packed.is_empty() && packed.len() < plain.len();
        let data = if is_packed { &packed } else { plain };
        let mut head = Head {
            bytes: (data.len() as u32).into(),
            check: 0.into(),
            kind: (frame.kind as u16).into(),
            packed: u16::from(is_packed).into(),
            process: frame.process.into(),
            call: frame.call.into(),
            plain: (plain.len() as u32).into(),
            rounds: frame.at.rounds.into(),
            time: frame.at.time.into(),
            words: frame.words.map(U64::new),
        };
        head.check = head.check_of(data).into();
        self.0.write_all(&[head.as_bytes(), data].concat())
    }
}

/// Where a record ends that does not end well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Frames before it.
    pub frames: usize,
    /// Bytes before it.
    pub byte: usize,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { frames, byte, why } = self;
        write!(
            f,
            "it is good up to byte {byte}, which is {frames} frames: {why}"
        )
    }
}

/// A record that was read.
#[derive(Debug)]
pub struct Record {
    /// The config of the machine.
    pub config: String,
    /// What is good of it.
    pub frames: Vec<Frame>,
    /// Where the good part ends, if there is more of the file, or should be.
    pub cut: Option<Cut>,
}

/// Takes so many bytes.
fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let bytes = take(rest, 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}

impl Record {
    /// Reads one. A part that is good is read, whatever follows.
    ///
    /// # Errors
    /// What the system says; that it is none, or of another version, or that its start is damaged.
    pub fn read(path: &Path) -> Result<Record, String> {
        let bytes = std::fs::read(path);
        let record = bytes
            .map_err(|error| error.to_string())
            .and_then(|bytes| Record::of(&bytes));
        record.map_err(|what| format!("{}: {what}", path.display()))
    }

    fn of(all: &[u8]) -> Result<Record, String> {
        let mut rest = all;
        if take(&mut rest, MAGIC.len()) != Some(MAGIC) {
            return Err("not a record of `doorbell twin exec --record`".into());
        }
        let damaged = || "the start of the record is damaged: its config cannot be read".to_owned();
        let version = number(&mut rest).ok_or_else(damaged)?;
        if version != VERSION {
            return Err(format!(
                "a record of version {version}; this program reads version {VERSION}: replay it with the one that wrote it"
            ));
        }
        let length = number(&mut rest).ok_or_else(damaged)?;
        let config = take(&mut rest, length as usize).ok_or_else(damaged)?;
        let checked = all.len() - rest.len();
        if number(&mut rest) != Some(crc32fast::hash(&all[..checked])) {
            return Err(damaged());
        }
        let config = String::from_utf8(config.to_vec()).map_err(|_| damaged())?;
        let mut frames = Vec::new();
        let mut cut = None;
        while !rest.is_empty() {
            let byte = all.len() - rest.len();
            match frame(&mut rest) {
                Ok(frame) => frames.push(frame),
                Err(why) => {
                    let frames = frames.len();
                    cut = Some(Cut { frames, byte, why });
                    break;
                }
            }
        }
        if cut.is_none() && frames.last().is_none_or(|last| last.kind != Kind::End) {
            cut = Some(Cut {
                frames: frames.len(),
                byte: all.len(),
                why: "it has no end, because it was not written to its end".into(),
            });
        }
        Ok(Record {
            config,
            frames,
            cut,
        })
    }
}

fn frame(rest: &mut &[u8]) -> Result<Frame, String> {
    let left = rest.len();
    let short = |needed: usize| {
        format!("the file ends there, in a frame of {needed} bytes of which it has {left}")
    };
    let head = take(rest, size_of::<Head>()).ok_or_else(|| short(size_of::<Head>()))?;
    let head = Head::read_from_bytes(head).map_err(|_| short(size_of::<Head>()))?;
    let length = head.bytes.get() as usize;
    let data = take(rest, length).ok_or_else(|| short(size_of::<Head>() + length))?;
    let (check, expected) = (head.check_of(data), head.check.get());
    if check != expected {
        return Err(format!(
            "a frame of {length} bytes of data has the checksum {check:#010x}, and says {expected:#010x}"
        ));
    }
    let kind = Kind::of(head.kind.get().into());
    let kind =
        kind.ok_or_else(|| format!("a frame is of kind {}, which nobody knows", head.kind))?;
    let plain = head.plain.get() as usize;
    let bytes = match head.packed.get() {
        0 => data.to_vec(),
        _ => {
            let mut bytes = Vec::new();
            let unpacked = ZlibDecoder::new(data)
                .take(MOST as u64)
                .read_to_end(&mut bytes);
            unpacked.map_err(|error| format!("a frame cannot be unpacked: {error}"))?;
            bytes
        }
    };
    if bytes.len() != plain {
        return Err(format!(
            "a frame has {} bytes of data, and says {plain}",
            bytes.len()
        ));
    }
    Ok(Frame {
        kind,
        process: head.process.get(),
        call: head.call.get(),
        at: Moment {
            rounds: head.rounds.get(),
            time: head.time.get(),
        },
        words: head.words.map(U64::get),
        bytes,
    })
}

/// Runs of bytes of a file: the data of `Memory`.
#[derive(Default)]
pub struct Runs(Vec<u8>);

impl Runs {
    /// Adds one.
    pub fn push(&mut self, at: u64, bytes: &[u8]) {
        self.0.extend(at.to_le_bytes());
        self.0.extend((bytes.len() as u64).to_le_bytes());
        self.0.extend(bytes);
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The data.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Those of a frame, as far as they are whole.
    pub fn of(data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = data;
        let word = |rest: &mut &[u8]| {
            let bytes = take(rest, 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        std::iter::from_fn(move || {
            let at = word(&mut rest)?;
            let bytes = usize::try_from(word(&mut rest)?).ok()?;
            Some((at, take(&mut rest, bytes)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, bytes: &[u8]) -> Frame {
        Frame {
            kind,
            process: 1,
            call: 2,
            at: Moment { rounds: 3, time: 4 },
            words: [5, 6, 7, 8, 9, u64::MAX],
            bytes: bytes.to_vec(),
        }
    }

    fn file() -> (Vec<u8>, Vec<Frame>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let frames = vec![
            frame(Kind::Open, b"/dev/kfd"),
            frame(Kind::Memory, &[7; 100_000]),
            frame(Kind::End, b""),
        ];
        let mut writer = Writer::create(&path, "chip=gfx1030").unwrap();
        for frame in &frames {
            writer.write(frame).unwrap();
        }
        (std::fs::read(path).unwrap(), frames)
    }

    #[test]
    fn frames_come_back_and_what_repeats_is_packed() {
        let (bytes, frames) = file();
        assert!(bytes.len() < 2000, "{}", bytes.len());
        let record = Record::of(&bytes).unwrap();
        assert_eq!((&*record.config, record.cut), ("chip=gfx1030", None));
        assert_eq!(record.frames, frames);
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_good_up_to_there() {
        let (bytes, frames) = file();
        let header = MAGIC.len() + 4 + 4 + "chip=gfx1030".len() + 4;
        for end in 0..bytes.len() {
            let read = Record::of(&bytes[..end]);
            if end < header {
                assert!(read.is_err(), "{end}");
                continue;
            }
            let read = read.unwrap();
            let cut = read.cut.unwrap();
            assert_eq!(read.frames, frames[..cut.frames], "{end}");
            assert!(cut.byte <= end && cut.frames < frames.len(), "{cut}");
        }
    }

    #[test]
    fn a_bit_that_is_flipped_is_found_wherever_it_is() {
        let (bytes, frames) = file();
        for byte in 0..bytes.len() {
            let mut other = bytes.clone();
            other[byte] ^= 1 << (byte % 8);
            if let Ok(read) = Record::of(&other) {
                let cut = read.cut.unwrap();
                assert_eq!(read.frames, frames[..cut.frames], "{byte}");
                assert!(cut.byte <= byte, "{byte}: {cut}");
            }
        }
    }

    #[test]
    fn other_files_and_versions_are_named() {
        let wrong = |bytes: &[u8]| Record::of(bytes).map(drop).unwrap_err();
        assert!(wrong(b"\x7fELF").contains("not a record"));
        let (mut bytes, _) = file();
        bytes[MAGIC.len()] = 9;
        assert!(wrong(&bytes).contains("version 9"), "{}", wrong(&bytes));
    }

    #[test]
    fn runs_come_back_as_far_as_they_are_whole() {
        let mut runs = Runs::default();
        runs.push(8, b"one");
        runs.push(4096, b"two");
        let data = runs.into_bytes();
        let all: Vec<_> = Runs::of(&data).collect();
        assert_eq!(all, [(8, &b"one"[..]), (4096, b"two")]);
        assert_eq!(Runs::of(&data[..data.len() - 1]).count(), 1);
    }
}
