//! Mistakes in messages: what GSP is told before it starts, headers, numbers, sums, pointers.

use twin::fires::fires;

use super::boot::{Boot, COMMANDS, bytes, registry, sign, words};
use super::rig::GSP;

fn boot() -> Boot {
    Boot::new("ga102", "570.144")
}

/// What GSP finds when it starts, as a test has left it.
fn started(boot: Boot) -> Boot {
    boot.until_started();
    boot.rig.settle();
    boot
}

/// A card on which nothing is in the queue yet.
fn unprepared(version: &'static str) -> Boot {
    let boot = Boot::new("ga102", version);
    let Boot { rig, firmware, .. } = boot;
    Boot::on(rig, firmware)
}

/// With other messages than those that are right.
fn told(messages: &[(u32, Vec<u8>)]) -> Boot {
    let boot = unprepared("570.144");
    boot.prepare_without_messages();
    for (function, payload) in messages {
        boot.push(&boot.message(*function, payload));
    }
    started(boot)
}

#[test]
fn gsp_is_told_about_the_machine_first() {
    let info = boot().system_info();
    let registry = registry();
    for messages in [
        vec![],
        vec![(72, info.clone())],
        vec![(73, registry.clone()), (72, info.clone())],
        vec![(72, info.clone()), (73, registry.clone()), (65, vec![0; 8])],
    ] {
        let boot = told(&messages);
        fires("NV-RPC-INIT").only(&boot.rig.broken());
    }
    let changed = |at: usize, value: u32| {
        let mut info = info.clone();
        info[at..at + 4].copy_from_slice(&value.to_le_bytes());
        info
    };
    for wrong in [
        changed(0, 0x1000),
        changed(16, 1),
        changed(0x50, 0x9_2000),
        [info.clone(), vec![0; 8]].concat(),
    ] {
        let boot = told(&[(72, wrong), (73, registry.clone())]);
        fires("NV-RPC-SYSTEM-INFO").only(&boot.rig.broken());
    }
    for (at, value) in [(0, 0x1000), (4, 40), (8, 0x1000), (12, 9), (20, 8)] {
        let mut wrong = registry.clone();
        wrong[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        let boot = told(&[(72, info.clone()), (73, wrong)]);
        fires("NV-RPC-REGISTRY").only(&boot.rig.broken());
    }
}

#[test]
fn queues_have_headers() {
    for (word, value) in [
        (0, 1),
        (1, 0x1000),
        (2, 0x800),
        (3, 64),
        (5, 0),
        (6, 0x40),
        (7, 0x2000),
    ] {
        let boot = boot();
        boot.shared
            .view
            .write::<u32>(COMMANDS + 4 * word, value)
            .unwrap();
        let boot = started(boot);
        fires("NV-QUEUE-HEADER").only(&boot.rig.broken());
    }
}

/// A running GSP is sent a message that a test has changed, and then a right one.
fn sent(change: impl FnOnce(&mut Vec<u8>)) -> Boot {
    let boot = boot();
    boot.until_done();
    let mut message = boot.message(1, &[0; 64]);
    change(&mut message);
    boot.push(&message);
    boot.rig.settle();
    boot
}

#[test]
fn messages_are_whole() {
    let boot = sent(|message| message[0x60] ^= 1);
    fires("NV-QUEUE-CHECKSUM").only(&boot.rig.broken());
    let boot = sent(|message| {
        message[0x24] += 1;
        sign(message);
    });
    fires("NV-QUEUE-SEQUENCE").only(&boot.rig.broken());
    for count in [0, 2, 17] {
        let boot = sent(|message| {
            message[0x28] = count;
            sign(message);
        });
        fires("NV-QUEUE-ELEMENT").only(&boot.rig.broken());
    }
    for (at, value) in [(0x30, 1), (0x34, 0), (0x38, 8)] {
        let boot = sent(|message| {
            message[at] = value;
            message[at + 1] = 0;
            sign(message);
        });
        fires("NV-RPC-HEADER").only(&boot.rig.broken());
    }
    // It goes on: the next message is answered.
    let boot = sent(|message| message[0x60] ^= 1);
    assert_eq!(boot.rpc(1, &[5; 16]).payload, [5; 16]);
    fires("NV-QUEUE-CHECKSUM").only(&boot.rig.broken());
}

#[test]
fn pointers_are_numbers_of_entries() {
    let boot = boot();
    boot.until_done();
    boot.shared.view.write::<u32>(COMMANDS + 0x10, 63).unwrap();
    boot.rig.set(GSP + 0xc00, 0);
    boot.rig.settle();
    fires("NV-QUEUE-POINTER").first(&boot.rig.broken());
    // The host's own.
    let boot = self::boot();
    boot.until_done();
    boot.shared.view.write::<u32>(COMMANDS + 0x20, 99).unwrap();
    boot.push(&boot.message(1, &[0; 8]));
    boot.rig.settle();
    fires("NV-QUEUE-POINTER").only(&boot.rig.broken());
}

#[test]
fn long_rpcs_take_several_records() {
    let boot = boot();
    boot.until_done();
    let answer = boot.control_of(100_000);
    // A control that there is not: what matters is that all of it came, and came back.
    assert_eq!(answer.payload.len(), 0x18 + 100_000);
    assert_eq!(answer.payload[0x18 + 99_999], 7);
    assert_eq!(boot.rig.broken().len(), 1);
    let boot = self::boot();
    boot.until_done();
    boot.push(&boot.message(71, &[0; 8]));
    boot.rig.settle();
    fires("NV-RPC-CONTINUATION").only(&boot.rig.broken());
    // Something else before the rest.
    let boot = self::boot();
    boot.until_done();
    let mut head = bytes(&[0, 0, 0, 0, 100_000, 0]);
    // A record that is not full has no rest.
    boot.push(&boot.message(76, &head));
    boot.rig.settle();
    fires("NV-RPC-CONTINUATION").only(&boot.rig.broken());
    let boot = self::boot();
    boot.until_done();
    head.resize(16 * 4096 - 0x50, 0);
    boot.push(&boot.message(76, &head));
    boot.push(&boot.message(1, &[0; 8]));
    boot.rig.settle();
    fires("NV-RPC-CONTINUATION").only(&boot.rig.broken());
}

#[test]
fn many_answers_wait_for_the_host() {
    let boot = boot();
    boot.until_done();
    // The host takes nothing until there is no room left.
    for i in 0..70_u32 {
        boot.push(&boot.message(1, &bytes(&[i; 4])));
        boot.rig.settle();
    }
    for i in 0..70 {
        assert_eq!(words(&boot.record().payload), [i; 4]);
        boot.rig.set(GSP + 0xc00, 0);
    }
    boot.rig.is_clean();
}

#[test]
fn functions_and_queues_are_known() {
    let boot = boot();
    boot.until_done();
    assert_eq!(boot.rpc(99, &[0; 8]).result, 0x56);
    fires("NV-RPC-NOT-MODELLED").only(&boot.rig.broken());
    let boot = self::boot();
    boot.until_done();
    boot.rig.set(GSP + 0xc08, 0);
    boot.rig.settle();
    fires("NV-GSP-QUEUE-HEAD").only(&boot.rig.broken());
}
