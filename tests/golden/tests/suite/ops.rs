//! Every operator against the references, on every engine there is.
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use conformance::part::Part;
use golden::engines::{self, EngineError, Rig};
use golden::manifest::{Case, Group, References};
use golden::suite::{self, CaseError, run_suite};
use tensor::DType;

/// One test per engine and group, so that a failing group leaves the others visible. A new device
/// takes one function in `engines` and its name here. On some, one case in so many runs: of a quarter
/// or an eighth, which one is the part's choice.
macro_rules! suites {
    ($($of:literal: [$($engine:ident)*])* of $groups:tt) => {
        $($(suites!(engine $engine $of $groups);)*)*
        suites!(names $groups);
    };
    (engine $engine:ident $of:literal [$($group:ident)*]) => {
        mod $engine {
            $(#[test]
            fn $group() {
                super::check(super::engines::$engine(), stringify!($group), $of);
            })*
        }
    };
    (names [$($group:ident)*]) => {
        const GROUPS: &[&str] = &[$(stringify!($group)),*];
    };
}

suites! {
    1: [reference interpreter cpu]
    4: [gfx1100 gfx1201]
    8: [sm_86 sm_89 sm_90 a630]
    10: [gfx1030 gfx942 gfx1100_remote gfx1100_pci gfx1201_pci gfx1201_usb sm_120 a643 a660 a660_msm]
    // The runtime builds each of its kernels anew.
    36: [cl]
    of [
        activation attention binary cast choice conv create index integer linalg loss movement norm
        optim order pool position promote random reduce scan softmax spread unary
    ]
}

fn check(made: Result<Rig, EngineError>, group: &str, of: usize) {
    let Some(rig) = Rig::of_test(made) else {
        return;
    };
    // A tenth is always the same one: the rest has not been tried on those engines.
    let part = match of {
        10 => Part::Number(0),
        _ => Part::chosen(),
    };
    let index = Cell::new(0usize);
    let refused = RefCell::new(BTreeSet::new());
    let filter = |g: &Group, case: &Case| {
        let chosen = g.name == group && part.has(index.replace(index.get() + 1), of);
        if chosen && !rig.doubles && has_doubles(g, case) {
            refused.borrow_mut().insert(suite::name(g, case));
        }
        chosen
    };
    let run = match rig.flushes {
        true => suite::run_flushing(&rig.engine, filter),
        false => run_suite(&rig.engine, filter),
    };
    let mut report = run.unwrap();
    let cases = index.get();
    assert!(cases > 0, "no cases in group {group}");
    assert!(report.cases >= cases / of, "{report}");
    // A device without them says so.
    let refused = refused.into_inner();
    let right = |error: &CaseError| error.to_string().contains("f64");
    report
        .failures
        .retain(|(name, error)| !(refused.contains(name) && right(error)));
    let rules = rig.finish();
    let whole = report.failures.is_empty() && rules.is_ok();
    assert!(
        whole,
        "{report}{}",
        rules.err().map_or(String::new(), |e| e.to_string())
    );
}

/// Whether a case takes or gives an `f64`.
fn has_doubles(group: &Group, case: &Case) -> bool {
    let mut names = case.inputs.iter().chain(&case.outputs);
    names.any(|name| group.array(name).is_ok_and(|a| a.dtype == DType::F64))
}

/// Cards that differ from these in how they are started: of one of them, which the part chooses, one case in ten.
#[test]
fn a_tenth_on_another_card_without_a_kernel_driver() {
    let part = Part::chosen();
    let cards = ["gfx942", "gfx1101", "gfx1102", "gfx1200"];
    let chosen = (0..cards.len()).filter(|number| part.has(*number, cards.len()));
    for chip in chosen.map(|number| cards[number]) {
        println!("{chip}");
        let Some(rig) = Rig::of_test(engines::pci(chip)) else {
            return;
        };
        let index = Cell::new(0usize);
        let tenth = |_: &_, _: &_| index.replace(index.get() + 1).is_multiple_of(10);
        let report = run_suite(&rig.engine, tenth).unwrap();
        assert!(report.cases > 100, "{report}");
        assert!(report.failures.is_empty(), "{chip}: {report}");
        rig.finish().unwrap();
    }
}

/// The same of NVIDIA's: of one of them, which the part chooses, a quarter of the tenth.
#[test]
fn a_tenth_on_nvidias_cards_without_a_kernel_driver() {
    let part = Part::chosen();
    let cards = [
        ("ga102", ("sm_86", "CUDA")),
        ("ad102", ("sm_89", "PTX")),
        ("gh100", ("sm_90", "CUDA")),
        ("gb202", ("sm_120", "PTX")),
    ];
    let chosen = cards.iter().enumerate();
    for (number, (chip, code)) in chosen.filter(|(number, _)| part.has(*number, cards.len())) {
        println!("{chip}");
        let Some(rig) = Rig::of_test(engines::nv_pci(chip, *code)) else {
            return;
        };
        let index = Cell::new(0usize);
        let quarter = |_: &_, _: &_| {
            let (tenth, rest) = (index.get() / 10, index.get() % 10);
            index.set(index.get() + 1);
            rest == 0 && part.has(number + cards.len() * (tenth % 4), 4 * cards.len())
        };
        let report = run_suite(&rig.engine, quarter).unwrap();
        assert!(report.cases > 50, "{report}");
        assert!(report.failures.is_empty(), "{chip}: {report}");
        rig.finish().unwrap();
    }
}

#[test]
fn every_group_has_a_test() {
    let references = References::open(&References::folder()).unwrap();
    assert_eq!(references.header.schema, "doorbell.references/1");
    let found: BTreeSet<&str> = references.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(found, GROUPS.iter().copied().collect());
}
