//! Page tables of all generations, walked as a hub walks them, and against those that another driver wrote.

use std::collections::BTreeMap;
use std::path::Path;

use drivers_amd::am::pages::{Attr, Format, TABLE, Tables};
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::pte;
use hcq::addr::{BusAddr, GpuVa, PhysAddr, VramAddr};
use hcq::mem::pages::PageTable;
use hcq::mem::view::View;
use hcq::mem::window::Window;
use hcq::{DeviceId, Error};
use proptest::prelude::*;
use serde_json::Value;

use super::walk::walk;

const START: GpuVa = GpuVa(0x2000_0000_0000);
const AREA: u64 = 2 << 20;

fn device() -> DeviceId {
    DeviceId::new("AMD", 0)
}

fn number(value: &Value) -> u64 {
    match value.as_str() {
        Some(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap(),
        None => value.as_u64().unwrap(),
    }
}

/// VRAM whose every byte was written by somebody, with room for tables in front.
fn dirty(bytes: u64) -> Window {
    let view = View::alloc(bytes as usize, 4096).unwrap();
    view.fill(0, bytes as usize, 0xa5).unwrap();
    Window::mapped("VRAM", view)
}

fn table(gfx: Gfx, vram: &Window) -> PageTable<Format, Tables> {
    let tables = Tables::new(&device(), vram, VramAddr(0), vram.len()).unwrap();
    PageTable::new(Format::of(gfx), tables, START).unwrap()
}

/// Entries by table and index, tables by when they were first named.
fn recorded(case: &Value) -> BTreeMap<(u64, u64), (usize, u64)> {
    let mut found = BTreeMap::new();
    for row in case["entries"].as_array().unwrap() {
        let level = number(&row[0]) as usize;
        let stride = row[5].as_str().map_or(0, |_| number(&row[5]));
        for i in 0..number(&row[3]) {
            let at = (number(&row[1]), number(&row[2]) + i);
            found.insert(at, (level, number(&row[4]).wrapping_add(i * stride)));
        }
    }
    found
}

/// The recorded entries as memory.
fn memory_of(case: &Value) -> (Window, u64) {
    let vram = Window::mapped("recorded", View::alloc(64 << 12, 4096).unwrap());
    let entries = recorded(case);
    let mut tables: Vec<u64> = entries.keys().map(|(table, _)| *table).collect();
    tables.dedup();
    let placed = |table: u64| tables.iter().position(|one| *one == table);
    for (&(table, index), &(_, entry)) in &entries {
        let leads = placed(entry & pte::ADDRESS.mask());
        let is_table = leads.is_some() && entry & pte::READABLE.mask() == 0;
        let entry = match leads.filter(|_| is_table) {
            Some(at) => (entry & !pte::ADDRESS.mask()) | ((at as u64) << 12),
            None => entry,
        };
        let at = ((placed(table).unwrap() as u64) << 12) + index * 8;
        vram.store(at, entry).unwrap();
    }
    (vram, (placed(0).unwrap() as u64) << 12)
}

#[test]
fn mappings_are_those_of_another_driver() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/amd");
    let text = std::fs::read_to_string(folder.join("am_pagetable.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(number(&golden["va_base"]), START.0);
    let mut longer = Vec::new();
    let mut cases = 0;
    for (name, gfx) in [
        ("9.4.3", Gfx::Gfx9),
        ("11.0.0", Gfx::Gfx11),
        ("12.0.0", Gfx::Gfx12),
    ] {
        for case in golden["gc"][name].as_array().unwrap() {
            cases += 1;
            let what = format!("{name} {}", case["name"]);
            let is_bus = case["aspace"] == "SYS";
            let pieces = case["paddrs"].as_array().unwrap().iter().map(|piece| {
                let at = number(&piece[0]);
                let to = match is_bus {
                    true => PhysAddr::Bus(BusAddr(at)),
                    false => PhysAddr::Vram(VramAddr(at)),
                };
                (to, number(&piece[1]))
            });
            let pieces: Vec<_> = pieces.collect();
            let attr = Attr {
                snooped: case["snooped"] == true,
                uncached: case["uncached"] == true,
                ..Attr::LOCAL
            };
            let va = GpuVa(number(&case["va"]));
            let vram = dirty(AREA);
            let mut ours = table(gfx, &vram);
            ours.map(va, &pieces, attr).unwrap();

            let (theirs, root) = memory_of(case);
            let bytes: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
            let first = va.0 - START.0;
            // A GiB a page at a time is the same page over and over.
            let step = if bytes > 64 << 20 { 1 << 21 } else { 1 << 12 };
            for at in (first..first + bytes).step_by(step) {
                let own = walk(gfx, &vram, ours.root().raw(), at).unwrap();
                let other = walk(gfx, &theirs, root, at).unwrap();
                assert!(own.run >= other.run, "{what} {at:#x}: {own:?} {other:?}");
                if own.run > other.run {
                    longer.push(what.clone());
                }
                let run = own.run;
                assert_eq!(own, super::walk::Found { run, ..other }, "{what} {at:#x}");
            }
            for at in [first.wrapping_sub(1 << 12), first + bytes] {
                let at = at & ((1 << 48) - 1);
                assert_eq!(walk(gfx, &vram, ours.root().raw(), at), None, "{what}");
            }
        }
    }
    assert_eq!(cases, 33);
    longer.dedup();
    // That driver names one run for all of a piece, by its first address and its length: shorter than it could be
    // where a piece is no power of two.
    let odd = ["\"three_4k\"", "\"2m_plus_4k_unaligned_va\""];
    let all = ["9.4.3", "11.0.0", "12.0.0"].into_iter();
    let expected: Vec<_> = all
        .flat_map(|gc| odd.map(|case| format!("{gc} {case}")))
        .collect();
    assert_eq!(longer, expected);
}

#[test]
fn rights_and_caching_are_bits_of_the_leaf() {
    for gfx in [Gfx::Gfx9, Gfx::Gfx11, Gfx::Gfx12] {
        let vram = dirty(AREA);
        let mut pages = table(gfx, &vram);
        let read = Attr {
            write: false,
            execute: false,
            ..Attr::LOCAL
        };
        let to = PhysAddr::Vram(VramAddr(0x9000));
        let host = PhysAddr::Bus(BusAddr(0xfff_ffff_f000));
        pages.map(START, &[(to, 0x1000)], read).unwrap();
        let next = START.add(0x1000).unwrap();
        pages.map(next, &[(host, 0x1000)], Attr::HOST).unwrap();
        let at = |at| walk(gfx, &vram, pages.root().raw(), at).unwrap();
        let own = at(0);
        let allowed = pte::READABLE.mask() | pte::WRITEABLE.mask() | pte::EXECUTABLE.mask();
        assert_eq!(own.entry & allowed, pte::READABLE.mask());
        let host = at(0x1000);
        assert_eq!(host.entry & allowed, allowed);
        assert_eq!(host.to, 0xfff_ffff_f000);
        let of = pte::entries(gfx);
        assert_eq!(of.mtype.get(host.entry), pte::MTYPE_UC);
        assert_eq!(pte::SYSTEM.get(host.entry), 1);
        assert_eq!(pte::SNOOPED.get(host.entry), 1);
        // Whatever maps a page says so, where the generation has a bit for it in this level.
        let marked = of.leaf.get(own.entry) == 1;
        assert_eq!(marked, gfx == Gfx::Gfx12);
    }
}

#[test]
fn tables_that_do_not_fit_are_refused_with_what_is_there() {
    let vram = dirty(4 * TABLE);
    let error = Tables::new(&device(), &vram, VramAddr(TABLE), 4 * TABLE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "AMD:0 memory: asked for 16384 bytes, 12288 of 16384 are free in the BAR from 0x1000 \
         (page tables must be in the BAR); resize the BAR. Free buffers or use a smaller batch"
    );
    assert!(Tables::new(&device(), &vram, VramAddr(u64::MAX - 4095), TABLE).is_err());
    assert!(Tables::new(&device(), &vram, VramAddr(0x800), TABLE).is_err());

    // The root and three more: one page of 4 KiB. Another one beside it needs none, one elsewhere does.
    let mut pages = table(Gfx::Gfx11, &vram);
    let to = [(PhysAddr::Vram(VramAddr(0)), 0x1000)];
    pages.map(START, &to, Attr::LOCAL).unwrap();
    pages
        .map(GpuVa(START.0 + 0x1000), &to, Attr::LOCAL)
        .unwrap();
    let far = GpuVa(START.0 + (1 << 30));
    let error = pages.map(far, &to, Attr::LOCAL).unwrap_err().to_string();
    assert!(error.contains("of page table memory"), "{error}");
    assert_eq!(pages.tables(), 3);
    // Nothing of it is left, and what was there still is.
    assert_eq!(
        walk(Gfx::Gfx11, &vram, pages.root().raw(), 1 << 30),
        None,
        "nothing leads there"
    );
    let retired = pages.unmap(START, 0x2000).unwrap();
    assert_eq!(retired.tables(), 3);
    pages.release(retired);
    pages.map(far, &to, Attr::LOCAL).unwrap();
}

#[test]
fn tables_are_where_a_small_bar_shows_them() {
    // VRAM of 64 GiB of which the BAR shows 256 MiB: pages beyond are mapped by tables inside.
    let vram = dirty(AREA);
    let tables = Tables::new(&device(), &vram, VramAddr(AREA / 2), AREA / 2).unwrap();
    let mut pages = PageTable::new(Format::of(Gfx::Gfx12), tables, START).unwrap();
    let to = PhysAddr::Vram(VramAddr(60 << 30));
    pages.map(START, &[(to, 3 << 20)], Attr::LOCAL).unwrap();
    assert!(pages.root().raw() >= AREA / 2);
    let found = walk(Gfx::Gfx12, &vram, pages.root().raw(), 0x2f_f000).unwrap();
    assert_eq!(found.to, (60 << 30) + 0x2f_f000);
    let Error::OutOfMemory { free, .. } =
        Tables::new(&device(), &vram, VramAddr(256 << 20), AREA).unwrap_err()
    else {
        panic!("it is memory that is missing");
    };
    assert_eq!(free, 0);
}

/// Page, pages, where to; or an unmap.
type Step = (bool, u64, u64, u64);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever was mapped and unmapped, a hub finds what a plain map says.
    #[test]
    fn a_walk_finds_what_is_mapped(
        gfx in prop::sample::select(vec![Gfx::Gfx9, Gfx::Gfx11, Gfx::Gfx12]),
        steps in prop::collection::vec(
            (any::<bool>(), 0u64..1600, prop::sample::select(vec![1u64, 3, 16, 75, 512, 600, 1024]), 0u64..2048),
            1..16,
        ),
    ) {
        let vram = dirty(AREA);
        let mut pages = table(gfx, &vram);
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        let steps: Vec<Step> = steps;
        for (is_map, at, count, to) in steps {
            let va = GpuVa(START.0 + (at << 12));
            let is_free = (at..at + count).all(|page| !model.contains_key(&page));
            let is_full = (at..at + count).all(|page| model.contains_key(&page));
            if is_map {
                let piece = [(PhysAddr::Vram(VramAddr(to << 12)), count << 12)];
                let done = pages.map(va, &piece, Attr::LOCAL);
                prop_assert_eq!(done.is_ok(), is_free);
                if is_free {
                    model.extend((0..count).map(|page| (at + page, to + page)));
                }
            } else {
                let done = pages.unmap(va, count << 12);
                prop_assert_eq!(done.is_ok(), is_full);
                if let Ok(retired) = done {
                    pages.release(retired);
                    model.retain(|page, _| !(at..at + count).contains(page));
                }
            }
            for page in 0..2700 {
                let found = walk(gfx, &vram, pages.root().raw(), page << 12);
                prop_assert_eq!(found.map(|f| f.to >> 12), model.get(&page).copied());
                // A run is contiguous and aligned on both sides.
                if let Some(found) = found {
                    let pages = 1 << (found.run - 12);
                    let first = page & !(pages - 1);
                    let to = model[&page] & !(pages - 1);
                    for i in 0..pages {
                        prop_assert_eq!(model.get(&(first + i)).copied(), Some(to + i));
                    }
                }
            }
        }
    }
}
