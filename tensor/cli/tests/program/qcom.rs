//! Adreno GPUs through KGSL and msm, simulated: the program as a person with a board runs it.

use crate::place;

use place::{Place, rows, succeed};
use serde_json::Value;

/// Both kernel drivers, with the options of `TWIN`.
const WAYS: [(&str, &str); 2] = [
    ("TWINKGSL+QCOM::a630", "kgsl"),
    ("TWINMSM+QCOM::a643", "msm"),
];

#[test]
fn smi_shows_the_clock_of_both_kernel_drivers() {
    let place = Place::new();
    for (dev, driver) in WAYS {
        let found = rows(
            &succeed(&place, &["smi", "--json"], &[("DEV", dev)]),
            "doorbell.smi/1",
        );
        assert_eq!(found.len(), 1, "{dev}: {found:?}");
        assert_eq!(found[0]["driver"], Value::from(driver), "{dev}");
        assert!(
            found[0]["core_mhz"].as_f64() > Some(0.0),
            "{dev}: {found:?}"
        );
    }
}

/// The bundle of a hang names what was under way, by whichever call the loss was met.
#[test]
fn a_hang_is_explained_by_its_bundle() {
    let place = Place::new();
    for (dev, driver) in WAYS {
        let env = [("DEV", dev), ("TWIN", "fault=hang:3,timeout=200")];
        let ran = place.run(&["bench", "launch"], &env);
        assert_eq!(ran.code, 5, "{dev}: {}", ran.err);
        let (_, rest) = ran.err.split_once("doorbell explain ").unwrap();
        let path = rest.split([']', '\n']).next().unwrap().trim();
        let told = rows(
            &succeed(&place, &["explain", "--json", path], &[]),
            "doorbell.explain/1",
        );
        assert_eq!(told[0]["cause"], "gpu-hang", "{dev}: {told:?}");
        let text = succeed(&place, &["explain", path], &[]).out;
        for part in [
            "in flight on compute 0: the launch of kernel",
            &format!("dmesg | grep {driver}"),
        ] {
            assert!(text.contains(part), "{dev}: {part:?} is not in {text}");
        }
        for part in ["lspci", "cable"] {
            assert!(!text.contains(part), "{dev}: {part:?} is in {text}");
        }
    }
}

/// A machine that is served says why its GPU was reset: the program knows that it is lost and no more.
#[test]
fn resets_of_a_served_machine_are_told() {
    let place = Place::new();
    for kernel in ["kgsl", "msm"] {
        let run = |fault: &str| {
            let machine = format!("chip=a630,kernel={kernel},timeout=200{fault}");
            let exec = ["twin", "exec", "--twin", &machine, "--dev", "QCOM", "--"];
            let program = [env!("CARGO_BIN_EXE_doorbell"), "bench", "launch"];
            place.run(&[&exec[..], &program].concat(), &[]).err
        };
        let told = run(",fault=hang:3");
        let resets = told.lines().filter(|line| line.starts_with("reset: "));
        let resets: Vec<&str> = resets.collect();
        assert_eq!(resets.len(), 1, "{kernel}: {told}");
        assert!(
            resets[0].ends_with("hang: the config asks for it; the GPU is reset"),
            "{kernel}: {told}"
        );
        let told = run("");
        assert!(!told.contains("reset: "), "{kernel}: {told}");
    }
}

#[test]
fn a_chip_has_the_names_that_others_call_it_by() {
    let place = Place::new();
    for dev in ["TWINKGSL+QCOM::a642l", "TWINMSM+QCOM::a635"] {
        let text = succeed(&place, &["devices"], &[("DEV", dev)]).out;
        assert!(text.contains("a643"), "{dev}: {text}");
    }
}

#[test]
fn a_priority_that_there_is_not_is_refused() {
    let place = Place::new();
    let env = |priority| [("DEV", WAYS[0].0), ("QCOM_PRIORITY", priority)];
    succeed(&place, &["devices"], &env("12"));
    let ran = place.run(&["devices"], &env("16"));
    assert_ne!(ran.code, 0);
    assert!(
        ran.err
            .contains("QCOM_PRIORITY=16: expected a number from 1 to 15"),
        "{}",
        ran.err
    );
}
