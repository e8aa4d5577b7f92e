//! What the driver never asks of a GPU: launches by QMDs of other forms. Each is one that the driver encodes, changed,
//! in memory of our own; an answer is told, whatever it is, and a device that is lost is opened again.

use std::sync::Arc;
use std::time::Duration;

use conformance::{Rig, elements};
use doorbell::Error;
use drivers_spec::nv::qmd::{self, Field, Misfit, Version};
use hcq::{
    AllocSpec, ArgLayout, Buffer, Command, CommandBuffer, Deadline, MemoryKind, Program, Val,
};

use crate::subject::Selected;

/// What has become of a question: yes, no and why, or that there is none.
enum Answer {
    Yes(String),
    No(String),
    NotAsked(&'static str),
}

type Asked = Result<Answer, Error>;
type Ask = fn(&Rig<'_>, &Selected) -> Asked;

/// The questions, as `SILICON.md` has them.
const QUESTIONS: [(&str, Ask); 5] = [
    ("a QMD of the version before its own", older),
    (
        "shared memory without MIN and TARGET carve-outs",
        no_carve_outs,
    ),
    ("a release of the QMD's own", release),
    ("a QMD that another one starts", dependent),
    ("clusters of two blocks", clusters),
];

/// Asks all of them.
///
/// # Errors
/// There is no device, or no compiler.
pub fn run() -> Result<(), Error> {
    for (what, ask) in QUESTIONS {
        let subject = Selected::new()?;
        let rig = Rig::new(&subject);
        let told = match ask(&rig, &subject) {
            Ok(Answer::Yes(how)) => format!("yes, {how}"),
            Ok(Answer::No(how)) => format!("no, {how}"),
            Ok(Answer::NotAsked(why)) => format!("not asked: {why}"),
            Err(error) => format!("no: {error}"),
        };
        println!("{what}: {}", told.replace('\n', "; "));
    }
    Ok(())
}

/// QMDs lie at multiples of it.
const QMD_ALIGN: u64 = 256;

/// A launch whose QMD and constant bank lie in a buffer.
struct Launch {
    version: Version,
    /// The QMD, constant bank 0 behind it.
    words: Vec<u32>,
    memory: Buffer,
    packets: CommandBuffer,
}

impl Launch {
    fn new(
        rig: &Rig<'_>,
        program: &Arc<Program>,
        args: &[Val],
        grid: u32,
        block: u32,
    ) -> hcq::Result<Self> {
        let launch = Command::Exec {
            program,
            args,
            grid: [grid, 1, 1],
            block: [block, 1, 1],
        };
        let mut packets = CommandBuffer::new();
        rig.compute.queue().encode(&[launch], &mut packets)?;
        let memory = rig.device.alloc(AllocSpec {
            bytes: packets.data.len() as u64 * 4,
            align: QMD_ALIGN,
            kind: MemoryKind::Host,
            zeroed: true,
        })?;
        packets.relocate(memory.va().0);
        packets.relocs.clear();
        let words = std::mem::take(&mut packets.data);
        let version = Version::of(&Version::ALL, &words).unwrap();
        Ok(Launch {
            version,
            words,
            memory,
            packets,
        })
    }

    /// Where constant bank 0 begins.
    fn bank(&self) -> usize {
        self.version.dwords()
    }

    fn put(&mut self, field: &Field, value: u64) -> Result<(), Misfit> {
        let qmd = &mut self.words[..self.version.dwords()];
        field.put(self.version, 0, qmd, value)
    }

    /// Puts it where the GPU reads it.
    fn place(&self) -> hcq::Result<()> {
        let bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        self.memory.write(0, &bytes)
    }

    /// Runs it, and waits for its end.
    fn run(&self, rig: &Rig<'_>) -> hcq::Result<()> {
        self.place()?;
        let done = rig.device.signal("a question")?;
        let queue = rig.compute.queue();
        queue.timeline().submit(|turn| {
            let signals = [(&done, 1), (turn.signal(), turn.signal_value())];
            turn.packets().clone_from(&self.packets);
            for (signal, value) in signals {
                let value = Val::Const(value);
                queue.encode(&[Command::Signal { signal, value }], turn.packets())?;
            }
            queue.submit(turn)
        })?;
        done.wait(1, Deadline::after(Duration::from_secs(5)))
    }
}

fn at(buffer: &Buffer) -> Val {
    Val::Const(buffer.va().0)
}

fn load(rig: &Rig<'_>, subject: &Selected, kernel: &str) -> hcq::Result<Arc<Program>> {
    rig.device
        .load(&subject.image(kernel, ArgLayout::buffers(1)))
}

/// Whether memory holds what it should.
fn holds(found: &[u32], expected: &[u32], yes: &str) -> Answer {
    match found == expected {
        true => Answer::Yes(yes.into()),
        false => Answer::No(format!("expected {expected:?}, found {found:?}")),
    }
}

fn number(n: u32) -> Vec<u32> {
    (0..n).collect()
}

/// The kernel `store`, which writes a 1.
fn store(rig: &Rig<'_>, subject: &Selected, data: &Buffer) -> hcq::Result<Launch> {
    Launch::new(rig, &load(rig, subject, "store")?, &[at(data)], 1, 1)
}

fn misfit(wrong: Misfit) -> Error {
    Error::Device(hcq::Error::Graph(wrong.to_string()))
}

fn older(rig: &Rig<'_>, subject: &Selected) -> Asked {
    let data = rig.data(&[0]);
    let mut launch = store(rig, subject, &data)?;
    let (Version::V04_00, to) = (launch.version, Version::V03_00) else {
        return Ok(Answer::NotAsked("it is Hopper's"));
    };
    let own = launch.words[..launch.version.dwords()].to_vec();
    let mut other = vec![0; to.dwords()];
    for field in qmd::FIELDS {
        for index in 0..field.count(launch.version).min(field.count(to)) {
            // Halves of addresses count in other units: below.
            let value = field.get(launch.version, index, &own).unwrap_or(0);
            if value != 0 && !field.name.contains("_ADDR") {
                field.put(to, index, &mut other, value).map_err(misfit)?;
            }
        }
    }
    for wide in [
        qmd::PROGRAM_ADDRESS,
        qmd::PROGRAM_PREFETCH_ADDR,
        qmd::CONSTANT_BUFFER_ADDR,
    ] {
        for index in 0..wide.lower.count(to) {
            let value = wide.get(launch.version, index, &own).unwrap_or(0);
            wide.put(to, index, &mut other, value).map_err(misfit)?;
        }
    }
    let (major, minor) = to.number();
    for (field, value) in [
        (qmd::QMD_MAJOR_VERSION, major),
        (qmd::QMD_MINOR_VERSION, minor),
    ] {
        field.put(to, 0, &mut other, value).map_err(misfit)?;
    }
    // The constant bank stays where it is, behind a hole.
    launch.words[..own.len()].fill(0);
    launch.words[..other.len()].copy_from_slice(&other);
    launch.run(rig)?;
    Ok(holds(&elements(&data), &[1], "the kernel has run by it"))
}

fn no_carve_outs(rig: &Rig<'_>, subject: &Selected) -> Asked {
    let data = rig.data(&number(64));
    let program = load(rig, subject, "turn")?;
    let mut launch = Launch::new(rig, &program, &[at(&data)], 1, 64)?;
    launch
        .put(&qmd::MIN_SM_CONFIG_SHARED_MEM_SIZE, 0)
        .map_err(misfit)?;
    launch
        .put(&qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE, 0)
        .map_err(misfit)?;
    launch.run(rig)?;
    let expected: Vec<u32> = (0..64).rev().collect();
    Ok(holds(&elements(&data), &expected, "the numbers are right"))
}

fn release(rig: &Rig<'_>, subject: &Selected) -> Asked {
    const ONE_WORD: u64 = 1;
    let (data, told) = (rig.data(&[0]), rig.data(&[0; 4]));
    let mut launch = store(rig, subject, &data)?;
    launch.put(&qmd::RELEASE_ENABLE, 1).map_err(misfit)?;
    launch
        .put(&qmd::RELEASE_STRUCTURE_SIZE, ONE_WORD)
        .map_err(misfit)?;
    launch.put(&qmd::RELEASE_MEMBAR_TYPE, 1).map_err(misfit)?;
    let (version, qmd) = (launch.version, &mut launch.words[..]);
    let to = [
        (qmd::RELEASE_ADDR, told.va().0),
        (qmd::RELEASE_PAYLOAD, 0x600d),
    ];
    for (field, value) in to {
        field.put(version, 0, qmd, value).map_err(misfit)?;
    }
    launch.run(rig)?;
    let found = [elements(&data)[0], elements(&told)[0]];
    Ok(holds(
        &found,
        &[1, 0x600d],
        "the kernel has run, and the word is there",
    ))
}

fn dependent(rig: &Rig<'_>, subject: &Selected) -> Asked {
    const SCHEDULE: u64 = 1;
    let (data, other) = (rig.data(&[0]), rig.data(&number(64)));
    let turn = load(rig, subject, "turn")?;
    let second = Launch::new(rig, &turn, &[at(&other)], 1, 64)?;
    second.place()?;
    let mut first = store(rig, subject, &data)?;
    first
        .put(&qmd::DEPENDENT_QMD_POINTER, second.memory.va().0)
        .map_err(misfit)?;
    first
        .put(&qmd::DEPENDENT_QMD_ACTION, SCHEDULE)
        .map_err(misfit)?;
    first.put(&qmd::DEPENDENT_QMD_ENABLE, 1).map_err(misfit)?;
    first.run(rig)?;
    let expected: Vec<u32> = (0..64).rev().collect();
    Ok(match elements(&data) == [1] {
        true => holds(&elements(&other), &expected, "both kernels have run"),
        false => Answer::No("the first kernel has not run".into()),
    })
}

/// Where Hopper's compilers look for clusters in constant bank 0, in dwords: whether there are some, their blocks along
/// x, y and z, and the reciprocals of these.
///
/// Observed: code of NVRTC for sm_90.
const CLUSTER: usize = 0x140 / 4;

fn clusters(rig: &Rig<'_>, subject: &Selected) -> Asked {
    const GPC_CGA: u64 = 3;
    let data = rig.data(&[0; 8]);
    let program = load(rig, subject, "cluster")?;
    let mut launch = Launch::new(rig, &program, &[at(&data)], 4, 1)?;
    if launch.version != Version::V04_00 {
        return Ok(Answer::NotAsked("it is Hopper's"));
    }
    launch.put(&qmd::QMD_TYPE, GPC_CGA).map_err(misfit)?;
    let sides = [
        (qmd::GPC_CGA_WIDTH, 2),
        (qmd::GPC_CGA_HEIGHT, 1),
        (qmd::GPC_CGA_DEPTH, 1),
    ];
    let bank = launch.bank();
    launch.words[bank + CLUSTER] = 1;
    for (i, (field, blocks)) in sides.into_iter().enumerate() {
        launch.put(&field, blocks).map_err(misfit)?;
        launch.words[bank + CLUSTER + 1 + i] = blocks as u32;
        launch.words[bank + CLUSTER + 4 + i] = (1.0 / blocks as f32).to_bits();
    }
    launch.run(rig)?;
    let expected = [0, 2, 1, 2, 0, 2, 1, 2];
    Ok(holds(
        &elements(&data),
        &expected,
        "ranks and sizes are right",
    ))
}
