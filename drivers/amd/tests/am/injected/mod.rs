//! One thing at a time goes wrong, at every place where it can: in the start of a card, its queues and its memory. It
//! ends as an error in words, of the stage that it met, or as nothing where it hurts nobody; no rule is broken; nobody
//! waits longer than the limits; and the next process starts the card.

mod files;
mod watch;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conformance::part::Part;
use drivers_amd::Options;
use drivers_amd::am::boot;
use drivers_amd::am::card::Card;
use firmware_tools::search::Search;
use hcq::transport::access::Verb;
use hcq::transport::fault::{Inject, Rule};
use hcq::transport::tap::Tapped;
use hcq::transport::{Clock, Machine};
use hcq::{DeviceId, Error, MemoryKind, Result};
use twin_amd::pci::card::{Before, Config};
use twin_amd::pci::chip::Chip;
use twin_amd::pci::machine::PciMachine;

use super::boot::firmware;
use super::stand;
use files::{DAMAGES, Damage};
use watch::{Asked, Watch};

/// What goes wrong.
#[derive(Clone, Debug)]
enum Fault {
    /// The time of a wait is over before what it waits for has happened, which happens later. By the look at the clock.
    Late(u64),
    /// What is waited for never happens. By its number as they begin.
    Stuck(u64),
    /// The host has no memory when it is asked for some, and when it is asked for less.
    Host(Verb, u64),
    /// The card has so many MiB of VRAM.
    Vram(u64),
    /// An access fails.
    Refused(u64),
    /// From an access on, the card is not on the bus.
    Gone(u64),
    /// One of the firmware files, by its place among them.
    File(Arc<Vec<String>>, usize, Damage),
}

impl Fault {
    /// What kind it is, for the count.
    fn kind(&self) -> &'static str {
        match self {
            Fault::Late(_) => "waits that end too early",
            Fault::Stuck(_) => "waits that never end",
            Fault::Host(..) => "refusals of host memory",
            Fault::Vram(_) => "sizes of VRAM",
            Fault::Refused(_) => "accesses that fail",
            Fault::Gone(_) => "departures from the bus",
            Fault::File(..) => "damaged files",
        }
    }
}

/// How a card is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// Power has come.
    Cold,
    /// A process of this driver has left it in order.
    Warm,
    /// The vendor's kernel driver has left it.
    Used,
}

/// A card, and how it is found.
#[derive(Clone, Copy, Debug)]
struct Scene {
    chip: &'static str,
    found: Found,
}

const SCENES: [Scene; 5] = [
    Scene {
        chip: "gfx1100",
        found: Found::Cold,
    },
    Scene {
        chip: "gfx1201",
        found: Found::Cold,
    },
    Scene {
        chip: "gfx1200",
        found: Found::Warm,
    },
    Scene {
        chip: "gfx1102",
        found: Found::Used,
    },
    Scene {
        chip: "gfx942",
        found: Found::Used,
    },
];

/// More than a wait takes before it looks at the clock, and then some.
const LOOKS: u32 = 16;

const ADDRESS: &str = "0000:03:00.0";
/// Longer than all limits that one process meets.
const MOST: Duration = Duration::from_secs(120);
/// At how many accesses of a process something goes wrong, of each kind.
const MOMENTS: u64 = 24;
/// MiB of VRAM: with the first of them there is no room for what the driver starts a card with.
const SMALL: std::ops::Range<u64> = 97..120;

fn options() -> Options {
    Options {
        compute_ring: 16 << 10,
        copy_ring: 8 << 10,
        kernargs: 64 << 10,
        firmware: vec![firmware()],
        ..Options::default()
    }
}

/// A process that opens a card, makes use of memory, and goes.
fn process(machine: &Arc<dyn Machine>, clock: Arc<dyn Clock>) -> Result<()> {
    let backend = drivers_amd::am::open(machine, ADDRESS, 0, &clock, &options())?;
    let device = drivers_amd::over(&backend, &options())?;
    for kind in [MemoryKind::Device, MemoryKind::Host] {
        // More than is kept for small ones.
        let buffer = stand::memory(&*device, kind, 3 << 20)?;
        buffer.write(0, &[7; 64])?;
    }
    Ok(())
}

impl Scene {
    /// One fault in so many is met at a time.
    fn parts(self) -> usize {
        // Eight XCCs take their time.
        if self.chip == "gfx942" { 64 } else { 16 }
    }

    fn config(self) -> Config {
        let before = match self.found {
            Found::Used => Before::Kernel,
            Found::Cold | Found::Warm => Before::Nobody,
        };
        Config {
            before,
            looks: LOOKS,
            ..Config::of(Chip::of(self.chip).unwrap())
        }
    }

    /// The card, with less VRAM if that is what goes wrong.
    fn small(self, fault: &Fault) -> Config {
        let mut config = self.config();
        if let Fault::Vram(mib) = fault {
            let mut chip = *config.chip;
            chip.vram = mib << 20;
            config.chip = Box::leak(Box::new(chip));
        }
        config
    }

    /// The machine as the process finds it.
    fn machine(self, config: Config) -> Arc<PciMachine> {
        let twin = PciMachine::of(&[config]).unwrap();
        if self.found == Found::Warm {
            let machine: Arc<dyn Machine> = twin.clone();
            process(&machine, Watch::new([], None)).unwrap();
            return twin.again();
        }
        twin
    }

    /// What can go wrong here.
    fn faults(self) -> Vec<Fault> {
        let config = self.config();
        let begun = config.begun.clone();
        let twin = self.machine(config);
        let before = begun.load(Ordering::Relaxed);
        let watch = Watch::new([], None);
        process(&Tapped::machine(twin.clone(), watch.clone()), watch.clone()).unwrap();
        unbroken(&twin, "nothing");
        let Asked {
            accesses,
            memory,
            waits,
        } = watch.asked();
        let mut faults: Vec<_> = waits.into_iter().map(Fault::Late).collect();
        faults.extend((before..begun.load(Ordering::Relaxed)).map(|n| Fault::Stuck(n + 1)));
        for (verb, times) in memory {
            faults.extend((1..=times).map(|n| Fault::Host(verb, n)));
        }
        let moments = || (0..MOMENTS).map(|i| 1 + i * accesses / MOMENTS);
        faults.extend(moments().map(Fault::Refused));
        // Between those.
        let between = accesses / MOMENTS / 2;
        faults.extend(moments().map(|n| Fault::Gone(n + between)));
        if self.found == Found::Cold {
            let is_short = |fault: &Fault| {
                let twin = self.machine(self.small(fault));
                let machine: Arc<dyn Machine> = twin.clone();
                process(&machine, Watch::new([], None)).is_err()
            };
            faults.extend(SMALL.map(Fault::Vram).take_while(is_short));
            let names = Arc::new(self.files());
            for i in 0..names.len() {
                faults.extend(DAMAGES.map(|damage| Fault::File(names.clone(), i, damage)));
            }
        }
        faults
    }

    /// Starts a card with files of a folder.
    fn start(self, twin: &PciMachine, folder: PathBuf) -> Result<(), String> {
        let clock: Arc<dyn Clock> = Watch::new([], None);
        let pci = twin.open_pci(ADDRESS).unwrap();
        let card = Card::open(DeviceId::new("AMD", 0), pci, clock);
        let options = boot::Options {
            firmware: Search::only([folder]),
            reset: false,
        };
        let started = card.and_then(|card| boot::start(Arc::new(card), &options));
        started.map(drop).map_err(|error| error.to_string())
    }

    /// The files that the card needs: each is missed by its name.
    fn files(self) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let folder = files::folder(&names);
            let twin = self.machine(self.config());
            match self.start(&twin, folder.path().into()) {
                Ok(()) => return names,
                Err(error) => {
                    let missed = error.split(": ").find(|word| word.ends_with(".bin"));
                    names.push(missed.unwrap_or_else(|| panic!("{error}")).to_owned());
                }
            }
        }
    }

    /// Lets a process meet a fault, and the next find the card. What came of it, if anything.
    fn meet(self, fault: &Fault) -> Option<String> {
        let name = format!("{} {:?}, {fault:?}", self.chip, self.found);
        let mut config = self.small(fault);
        let (mut rules, mut late) = (Vec::new(), None);
        let mut nth = |verb, nth, inject| {
            let name = None;
            rules.push(Rule {
                verb,
                name,
                nth,
                inject,
            });
        };
        match *fault {
            Fault::Late(n) => late = Some(n),
            Fault::Stuck(n) => config.stuck = Some(n),
            // ENOMEM
            Fault::Host(verb, n) => {
                nth(Some(verb), n, Inject::Errno(12));
                nth(Some(verb), n + 1, Inject::Errno(12));
            }
            // EIO
            Fault::Refused(n) => nth(None, n, Inject::Errno(5)),
            Fault::Gone(n) => nth(None, n, Inject::Vanish),
            Fault::Vram(_) | Fault::File(..) => {}
        }
        let twin = self.machine(config);
        let error = if let Fault::File(names, i, damage) = fault {
            let (folder, file) = (files::folder(&**names), &names[*i]);
            damage.put(folder.path(), file);
            let error = self.start(&twin, folder.path().into()).err();
            let text = error.unwrap_or_else(|| panic!("{name}: nobody has noticed"));
            assert!(
                text.contains("stage 3 of 13") && text.contains(file),
                "{name}: {text}"
            );
            Some(text)
        } else {
            let watch = Watch::new(rules, late);
            let met = process(&Tapped::machine(twin.clone(), watch.clone()), watch.clone());
            assert!(watch.waited() < MOST, "{name}: {:?}", watch.waited());
            met.err().map(|error| {
                let text = error.to_string();
                assert!(text.contains("AMD:0"), "{name}: {text}");
                let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
                if matches!(fault, Fault::Gone(_)) {
                    let gone = [
                        "has left the bus",
                        "RCC_CONFIG_MEMSIZE stays",
                        "the device is gone",
                        "after the reset: timed out waiting for the card to answer",
                    ];
                    assert!(says(&gone), "{name}: {text}");
                }
                let next = ["power-cycle the machine", "Power-cycle the machine"];
                let more = ["use a smaller batch", "Open the device again"];
                assert!(
                    !text.contains(": stage ") || says(&next) || says(&more),
                    "{name}: {text}"
                );
                let is_short = matches!(error, Error::OutOfMemory { .. });
                let lacks_memory = matches!(fault, Fault::Host(..) | Fault::Vram(_));
                // Less than that, and the card cannot be started.
                let is_none = matches!(fault, Fault::Vram(mib) if *mib == SMALL.start);
                assert_eq!(is_short, lacks_memory && !is_none, "{name}: {text}");
                text
            })
        };
        unbroken(&twin, &name);
        let again = twin.again();
        let machine: Arc<dyn Machine> = again.clone();
        let next = process(&machine, Watch::new([], None));
        unbroken(&again, &format!("{name}, the next process"));
        match (fault, next) {
            // The card is as small as before.
            (Fault::Vram(_), next) => {
                assert_eq!(next.err().map(|error| error.to_string()), error, "{name}");
            }
            (_, Ok(())) => {}
            (_, Err(next)) => panic!("{name}: {error:?}; the next process: {next}"),
        }
        error
    }
}

fn unbroken(twin: &PciMachine, what: &str) {
    let broken = twin.journal().violations();
    let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{what}: {}", broken.join("\n"));
}

#[test]
fn whatever_goes_wrong_is_said_and_the_next_process_starts_the_card() {
    let part = Part::chosen();
    let all: Vec<_> = SCENES
        .iter()
        .flat_map(|scene| scene.faults().into_iter().map(|fault| (*scene, fault)))
        .collect();
    let mut kinds = BTreeMap::<_, (u32, u32)>::new();
    let mut wrong = Vec::new();
    let is_chosen = |(i, (scene, _)): &(usize, &(Scene, Fault))| part.has(*i, scene.parts());
    for (_, (scene, fault)) in all.iter().enumerate().filter(is_chosen) {
        let met = catch_unwind(AssertUnwindSafe(|| scene.meet(fault)));
        let text = met.unwrap_or_else(|_| {
            wrong.push(format!("{scene:?} {fault:?}"));
            None
        });
        let (met, said) = kinds.entry(fault.kind()).or_default();
        *met += 1;
        *said += u32::from(text.is_some());
    }
    let met: u32 = kinds.values().map(|(met, _)| met).sum();
    println!("{met} of {} faults were injected:", all.len());
    for (kind, (met, said)) in kinds {
        println!("{met:5} {kind}, {said} ended as an error");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.len() > 2000, "{}", all.len());
}
