//! Cards before anything is started: all chips, BARs that show a part, cards that are not there, each access
//! that fails.

use std::sync::Arc;

use drivers_amd::am::card::Card;
use drivers_amd::am::{AmError, Cause, Stage};
use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{gc, nbio, osssys};
use drivers_spec::amd::packet::Gfx;
use hcq::DeviceId;
use hcq::transport::access::Verb;
use hcq::transport::fault::{FaultInject, Inject, Rule};
use hcq::transport::tap::Tapped;
use hcq::transport::{Pci, VirtualClock};
use twin::pci::HostMemory;
use twin::rule::Journal;
use twin_amd::pci::card::{Card as Twin, Config};
use twin_amd::pci::chip::{CHIPS, Chip};

const ADDRESS: &str = "0000:03:00.0";

fn twin(config: &Config) -> (Arc<dyn Pci>, Arc<Journal>) {
    let journal = Arc::new(Journal::new());
    let memory = HostMemory::new();
    let function = Twin::function(ADDRESS, config, &memory, &journal);
    (Arc::new(function.unwrap()), journal)
}

fn open(pci: Arc<dyn Pci>) -> Result<Card, AmError> {
    Card::open(DeviceId::new("AMD", 0), pci, Arc::new(VirtualClock::new()))
}

fn chip(name: &str) -> Config {
    Config::of(Chip::of(name).unwrap())
}

fn unbroken(journal: &Journal) {
    let broken: Vec<_> = journal
        .violations()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn all_chips_say_what_they_are_through_large_and_small_bars() {
    for chip in &CHIPS {
        // A BAR that shows all is the only one that MI300X has: its page tables are larger than a small one.
        let bars = match chip.gfx {
            Gfx::Gfx9 => vec![None],
            _ => vec![None, Some(256 << 20)],
        };
        for bar in bars {
            let config = Config {
                bar,
                silent: (2, 1),
                starting: 3,
                ..Config::of(chip)
            };
            let (pci, journal) = twin(&config);
            let card = open(pci).unwrap_or_else(|error| panic!("{}: {error}", chip.name));
            assert_eq!(card.vram_bytes(), chip.vram);
            assert_eq!(card.has_large_bar(), bar.is_none());
            assert_eq!(card.gfx(), chip.gfx);
            let (xccs, dies, units) = match chip.gfx {
                Gfx::Gfx9 => (8, 4, 10),
                _ => (1, 1, 8),
            };
            assert_eq!(card.blocks().gc.len(), xccs);
            assert_eq!(card.blocks().gc[xccs - 1].name, format!("GC{}", xccs - 1));
            assert_eq!(
                (card.blocks().mmhub.len(), card.blocks().dies.len()),
                (dies, dies)
            );
            assert_eq!(card.discovery().units.cus_per_array, units);
            // The host reaches all tables, whatever the BAR shows.
            assert!(card.areas().tables.end() <= card.vram().len());
            assert!(card.areas().rest.end() < card.vram_bytes());
            // Registers inside of the window, and beyond its end.
            let interrupts = card.registers(&card.blocks().osssys);
            let size = interrupts.set(&osssys::IH_RB_CNTL, &[("rb_size", 16)]);
            assert_eq!(size.unwrap().bits(), 16 << 1);
            let ways = [
                &nbio::S2A_DOORBELL_ENTRY_0_CTRL,
                &nbio::S2A_DOORBELL_ENTRY_5_CTRL,
            ];
            for (die, block) in &card.blocks().dies {
                let bus = card.registers(block);
                for (way, reg) in ways.iter().enumerate() {
                    bus.write(reg, 1 + way as u32 + u32::from(*die) * 2)
                        .unwrap();
                }
            }
            for (die, block) in &card.blocks().dies {
                let bus = card.registers(block);
                let seen = ways.map(|reg| bus.read(reg).unwrap().bits());
                let first = 1 + u32::from(*die) * 2;
                assert_eq!(seen, [first, first + 1], "{} {die}", chip.name);
            }
            let gc = card.registers(&card.blocks().gc[0]);
            gc.write(&gc::SCRATCH_REG7, 7).unwrap();
            let field = "page_table_block_size";
            let context = gc.put(&gc::GCVM_CONTEXT0_CNTL, &[(field, 3)]);
            context.unwrap();
            // The vendor has moved it.
            let shift = if chip.gfx == Gfx::Gfx12 { 4 } else { 3 };
            let bits = gc.read(&gc::GCVM_CONTEXT0_CNTL).unwrap().bits();
            assert_eq!(bits, 3 << shift, "{}", chip.name);
            unbroken(&journal);
        }
    }
}

#[test]
fn a_card_that_does_not_answer_is_named_with_what_to_do() {
    let forever = u32::MAX;
    for (silent, seen) in [((forever, 0), "0xffffffff"), ((0, forever), "0x0")] {
        let (pci, _) = twin(&Config {
            silent,
            ..chip("gfx1201")
        });
        let error = open(pci).err().unwrap();
        assert_eq!(error.stage, Stage::Card);
        assert_eq!(
            error.to_string(),
            format!(
                "AMD:0 (0000:03:00.0): stage 1 of 13, card BARs: RCC_CONFIG_MEMSIZE stays {seen}: the card \
                 is not initialized, in reset, or has left the bus. Power-cycle the machine; for an \
                 enclosure, check cable and power"
            )
        );
    }
    // A table that was never written; firmware that never says that it has started is no reason to stop.
    let (pci, _) = twin(&Config {
        starting: forever,
        table: Some(vec![0; 64]),
        ..chip("gfx1100")
    });
    let error = open(pci).err().unwrap();
    assert_eq!(error.stage, Stage::Discovery);
    let text = error.to_string();
    assert!(text.contains("the binary starts with 0x00000000"), "{text}");
    let (pci, journal) = twin(&Config {
        starting: forever,
        ..chip("gfx1100")
    });
    open(pci).unwrap();
    unbroken(&journal);
}

#[test]
fn chips_whose_registers_are_not_known_are_refused_by_block_and_version() {
    let with = |hw_id: u16, version: (u8, u8, u8)| {
        let config = chip("gfx1201");
        let mut contents = config.chip.contents();
        let block = contents
            .blocks
            .iter_mut()
            .find(|b| b.hw_id == hw_id)
            .unwrap();
        block.version = version;
        let table = Some(contents.build());
        let (pci, _) = twin(&Config { table, ..config });
        open(pci).err().unwrap()
    };
    let error = with(ip::GC, (10, 3, 0)).to_string();
    assert!(
        error.contains(
            "GC has version 10.3.0, supported are 9.4.3, 11.0.0, 11.0.2, 11.0.3, 12.0.0, 12.0.1"
        ),
        "{error}"
    );
    let error = with(ip::HDP, (7, 1, 0));
    assert!(matches!(*error.cause, Cause::Version { .. }), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("stage 2 of 13") && error.contains("HDP has version 7.1.0"),
        "{error}"
    );
    // A block that is not there at all.
    let config = chip("gfx1100");
    let mut contents = config.chip.contents();
    contents.blocks.retain(|block| block.hw_id != ip::MMHUB);
    let table = Some(contents.build());
    let (pci, _) = twin(&Config { table, ..config });
    let error = open(pci).err().unwrap().to_string();
    assert!(
        error.contains("no working MMHUB in the discovery table"),
        "{error}"
    );
}

#[test]
fn each_access_that_fails_and_a_card_that_leaves_at_any_moment_end_as_errors() {
    let mut faults = 0;
    for bar in [None, Some(256 << 20)] {
        let config = Config {
            bar,
            ..chip("gfx1201")
        };
        // Through a small BAR there are 7,680 accesses for the table: each 97th of them.
        let step = if bar.is_some() { 97 } else { 1 };
        for inject in [Inject::Errno(5), Inject::Timeout, Inject::Vanish] {
            for nth in (1u64..).step_by(step) {
                let (pci, journal) = twin(&config);
                let plan = FaultInject::new([Rule {
                    verb: None,
                    name: None,
                    nth,
                    inject,
                }]);
                let opened = open(Tapped::pci(pci, plan.clone()));
                unbroken(&journal);
                if plan.injected() == 0 {
                    opened.unwrap();
                    break;
                }
                faults += 1;
                // What is lost after the last read leaves nothing behind.
                if let Err(error) = opened {
                    let text = error.to_string();
                    assert!(text.starts_with("AMD:0 (0000:03:00.0): stage "), "{text}");
                }
                // The card itself is as it was: the next one opens it.
                let (pci, _) = twin(&config);
                open(pci).unwrap();
            }
        }
    }
    assert!(faults > 100, "{faults}");
    // One read of all ones is looked at again.
    let plan = FaultInject::new([Rule {
        verb: Some(Verb::Read),
        name: None,
        nth: 1,
        inject: Inject::AllOnes,
    }]);
    let (pci, _) = twin(&chip("gfx1100"));
    open(Tapped::pci(pci, plan.clone())).unwrap();
    assert_eq!(plan.injected(), 1);
}
