//! Recordings run without a broken rule, and what is changed in them is named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::replay::{Player, number, recording};

/// Recordings, and the machine that each is for.
const ALL: [(&str, &str); 4] = [
    ("nak86", "chip=ga102,driver=570"),
    ("cuda89", "chip=ad102,driver=570"),
    ("nak89_580", "chip=ad102,driver=580"),
    ("nak120", "chip=gb202,driver=570"),
];

#[test]
fn recordings_break_no_rule() {
    for (name, config) in ALL {
        let events = recording(name);
        let mut player = Player::new(config);
        let failed = player.play(&events);
        let violations = player.machine.journal.violations();
        let first = violations.first().map(ToString::to_string);
        assert_eq!((failed, first), (vec![], None), "{name}");
        // Both channels run, in an address space that UVM fills.
        let state = player.machine.state();
        let channels: Vec<_> = state.channels().collect();
        assert_eq!(channels.len(), 2, "{name}");
        for channel in channels {
            assert!(channel.registered && channel.scheduled, "{name}");
            let space = state.space_of(channel).unwrap();
            assert!(space.external && space.mappings().count() > 30, "{name}");
        }
    }
}

#[test]
fn a_recording_is_for_its_branch() {
    for (name, _) in ALL {
        let events = recording(name);
        let other = match name {
            "nak89_580" => "chip=ad102,driver=570",
            "nak120" => "chip=gb202,driver=580",
            "nak86" => "chip=ga102,driver=580",
            _ => "chip=ad102,driver=580",
        };
        let mut player = Player::new(other);
        assert!(!player.play(&events).is_empty(), "{name}");
        let broken = player.machine.broken_rules();
        assert!(broken.contains(&"RM-ESCAPE-SIZE"), "{name}: {broken:?}");
        assert!(broken.contains(&"RM-CONTROL-SIZE"), "{name}: {broken:?}");
    }
}

/// Plays a changed recording; returns the first rule that breaks.
fn first(config: &str, events: &[Value]) -> Option<&'static str> {
    let mut player = Player::new(config);
    player.play(events);
    player.machine.broken_rules().first().copied()
}

/// The place of the first call of that name, or of an event of that kind.
fn at(events: &[Value], name: &str) -> usize {
    let named = |event: &Value| event["ioctl"] == name || !event[name].is_null();
    events.iter().position(named).unwrap()
}

#[test]
fn calls_that_are_left_out_are_missed() {
    for (name, config) in ALL {
        let events = recording(name);
        for (call, rule) in [
            ("UVM_INITIALIZE", "UVM-MM"),
            ("UVM_MM_INITIALIZE", "UVM-MM"),
            ("UVM_REGISTER_GPU", "UVM-GPU"),
            ("UVM_REGISTER_GPU_VASPACE", "UVM-GPU"),
            ("UVM_CREATE_EXTERNAL_RANGE", "UVM-MAP"),
            ("UVM_MAP_EXTERNAL_ALLOCATION", "RM-CHANNEL-RING"),
            ("UVM_REGISTER_CHANNEL", "RM-SCHEDULE-REGISTERED"),
            ("NV_ESC_RM_MAP_MEMORY", "NV-MMAP-CONTEXT"),
            ("NV_ESC_REGISTER_FD", "RM-CLIENT"),
            ("memory", "RM-OS-DESCRIPTOR"),
        ] {
            let mut changed = events.clone();
            changed.remove(at(&events, call));
            let found = first(config, &changed);
            assert_eq!(found, Some(rule), "{name} without {call}");
        }
    }
}

#[test]
fn calls_that_are_made_twice_are_named() {
    for (name, config) in ALL {
        let events = recording(name);
        for (call, rule) in [
            ("UVM_MM_INITIALIZE", "UVM-MM"),
            ("UVM_REGISTER_GPU", "UVM-GPU"),
            ("UVM_REGISTER_GPU_VASPACE", "UVM-GPU"),
            ("UVM_CREATE_EXTERNAL_RANGE", "UVM-RANGE-OVERLAP"),
            ("UVM_REGISTER_CHANNEL", "UVM-CHANNEL"),
            ("UVM_FREE", "UVM-FREE"),
            ("NV_ESC_RM_MAP_MEMORY", "RM-MAP-FILE"),
            ("NV_ESC_REGISTER_FD", "RM-REGISTER-FD"),
            ("NV_ESC_RM_ALLOC_MEMORY", "RM-HANDLE"),
            ("NV_ESC_RM_MAP_MEMORY_DMA", "RM-MAP-DMA"),
        ] {
            let mut changed = events.clone();
            let place = at(&events, call);
            changed.insert(place, events[place].clone());
            let found = first(config, &changed);
            assert_eq!(found, Some(rule), "{name} with two {call}");
        }
    }
}

#[test]
fn sizes_that_are_changed_are_named() {
    for (name, config) in ALL {
        let events = recording(name);
        let mut seen = BTreeSet::new();
        for (i, event) in events.iter().enumerate() {
            let Some(call) = event["ioctl"].as_str() else {
                continue;
            };
            if !seen.insert(call) || !call.starts_with("NV_ESC_") || call == "NV_ESC_CARD_INFO" {
                continue;
            }
            let mut changed = events[..=i].to_vec();
            // 8 bytes more, in the request too.
            let request = number(&event["request"]) + (8 << 16);
            changed[i]["request"] = json!(format!("{request:#x}"));
            changed[i]["size"] = json!(number(&event["size"]) + 8);
            let found = first(config, &changed);
            assert_eq!(found, Some("RM-ESCAPE-SIZE"), "{name}: {i}, {call}");
        }
    }
}

/// Recordings of `scripts/silicon-record`, and the one that `DOORBELL_SESSION` names: each call ends as it
/// did, and no rule fires of which the recording does not say so.
#[test]
fn what_was_recorded_elsewhere_ends_as_it_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/nv/recorded");
    let kept = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let asked = std::env::var_os("DOORBELL_SESSION").map(PathBuf::from);
    let mut played = 0;
    for path in kept.chain(asked) {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let recording: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut player = Player::new(recording["machine"].as_str().unwrap());
        let events = recording["events"].as_array().unwrap();
        let failed = player.play(events);
        let shown: Vec<_> = failed
            .iter()
            .map(|(i, why)| format!("event {i} {}: {why}", events[*i]["of"]))
            .collect();
        assert!(
            shown.is_empty(),
            "{}:\n{}",
            path.display(),
            shown.join("\n")
        );
        let expected: BTreeSet<&str> = recording["rules"]
            .as_array()
            .map_or(BTreeSet::new(), |rules| {
                rules.iter().map(|rule| rule.as_str().unwrap()).collect()
            });
        let broken: BTreeSet<&str> = player.machine.broken_rules().into_iter().collect();
        assert_eq!(broken, expected, "{}", path.display());
        played += 1;
    }
    assert!(played > 0);
}

/// A recorded answer that is not the twin's is told.
#[test]
fn an_answer_that_differs_is_told() {
    let mut events = recording("nak86");
    let place = at(&events, "NV_ESC_REGISTER_FD");
    events[place]["errno"] = json!(22);
    let place = at(&events, "UVM_REGISTER_GPU");
    events[place]["after"] = json!("24:40");
    let told = Player::new("chip=ga102,driver=570").play(&events);
    let told: Vec<_> = told.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(
        told[..2],
        [
            "NV_ESC_REGISTER_FD: it is done; recorded: errno 22",
            "UVM_REGISTER_GPU: status 0x0; recorded: 0x40"
        ]
    );
}
