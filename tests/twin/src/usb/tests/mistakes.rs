//! Each mistake, and the rule that names it.

use super::*;

#[test]
fn mistakes_of_transfers_are_named() {
    let rig = Rig::ready();
    _ = rig.pipe.bulk_out(0x04, &[0; 4], SECOND);
    fires("USB-ENDPOINT").only(&rig.broken());

    // The device counts from 0 again, the host does not.
    let rig = Rig::ready();
    rig.stream_out(MEMORY, &[0; 64]);
    let bare = Setup {
        request_type: 2,
        request: 1,
        value: 0,
        index: 2,
    };
    rig.pipe.control_out(bare, &[], SECOND).unwrap();
    rig.f0(1, 0x60, 0xf, MEMORY, 16);
    assert!(rig.bulk_out(&[0; 64]).is_err());
    fires("USB-TOGGLE").only(&rig.broken());
    rig.pipe.clear_halt(2).unwrap();
    rig.stream_out(MEMORY, &[0; 64]);

    let rig = Rig::ready();
    rig.f0(2, 0x20, 0xf, MEMORY, 256);
    assert!(rig.bulk_in(64).is_err());
    fires("USB-BABBLE").only(&rig.broken());

    let rig = Rig::ready();
    assert!(rig.bulk_out(&[0; 512]).is_err());
    fires("ASM24-BULK-ARMED").only(&rig.broken());

    let rig = Rig::ready();
    rig.f0(1, 0x60, 0xf, MEMORY, 2);
    assert!(rig.bulk_out(&[0; 12]).is_err());
    fires("ASM24-STREAM-LENGTH").only(&rig.broken());

    let rig = Rig::ready();
    rig.f0(2, 0x20, 0xf, MEMORY, 512);
    rig.f0(2, 0x20, 0xf, REGISTER, 1);
    _ = rig.bulk_in(4);
    fires("ASM24-STALE-IN").first(&rig.broken());

    let rig = Rig::ready();
    let setup = Setup {
        request_type: 0x40,
        request: 0xf0,
        value: 0xf60,
        index: 1,
    };
    let to = |at: u64| {
        let words = [at as u32, (at >> 32) as u32, 1].map(u32::to_le_bytes);
        words.as_flattened().to_vec()
    };
    let (one, two) = (to(MEMORY), to(MEMORY + 4));
    let mut queue = [
        Transfer::ControlOut(setup, &one),
        Transfer::BulkOut(2, &[1; 4]),
        Transfer::ControlOut(setup, &two),
        Transfer::BulkOut(2, &[2; 4]),
    ];
    _ = rig.pipe.queue(&mut queue, SECOND);
    fires("ASM24-STREAM-CUT").first(&rig.broken());
}

#[test]
fn mistakes_of_requests_are_named() {
    let rig = Rig::ready();
    rig.out(0xf1, 0, 0, &[]);
    fires("ASM24-REQUEST").only(&rig.broken());

    let rig = Rig::new(Config {
        usb2: true,
        ..Config::default()
    });
    assert_eq!(rig.get(0xe4, 0xa000, 65).len(), 64);
    fires("ASM24-EP0-LENGTH").only(&rig.broken());

    let rig = Rig::ready();
    assert_eq!(rig.get(0xe4, 0xd000, 4), [0; 4]);
    fires("ASM24-XDATA").only(&rig.broken());
    rig.out(0xe5, 0x0100, 1, &[]);
    rig.out(0xe5, 0xb450, 1, &[]);
    assert_eq!(rig.broken(), ["ASM24-XDATA"; 3]);

    let rig = Rig::ready();
    rig.get(0xe4, 0xaff8, 16);
    fires("ASM24-XDATA-BORDER").only(&rig.broken());

    for (what, format, enables, at) in [
        ("type 0 for a bus that is behind", 0x04, 0xf, 0x0100_0000),
        ("a message", 0x30, 0xf, 0),
    ] {
        let rig = Rig::ready();
        rig.packet(format, enables, at, 0);
        assert_eq!(rig.broken(), ["ASM24-TLP-FORMAT"], "{what}");
    }
    let rig = Rig::ready();
    rig.f0(1, 0x60, 0x3, MEMORY, 1);
    fires("ASM24-TLP-FORMAT").only(&rig.broken());

    for (what, enables, at) in [
        ("holes", 0b1001, MEMORY),
        ("none", 0, MEMORY),
        ("over the dword", 0x1e, MEMORY),
        ("between", 0x3, MEMORY + 2),
    ] {
        let rig = Rig::ready();
        rig.packet(0x60, enables, at, 0);
        assert_eq!(rig.broken(), ["ASM24-TLP-BYTES"], "{what}");
        fires("ASM24-TLP-BYTES").only(&rig.broken());
    }

    let rig = Rig::ready();
    rig.packet(0x60, 0xf, MEMORY, 0);
    assert_eq!(rig.completion().3, 0xff);
    fires("ASM24-F0-COMPLETION").only(&rig.broken());
    rig.packet(0x20, 0xf, MEMORY, 0);
    rig.completion();
    rig.completion();
    assert_eq!(rig.broken(), ["ASM24-F0-COMPLETION"; 2]);
}

#[test]
fn mistakes_of_the_bus_are_named() {
    let rig = Rig::ready();
    rig.packet(0x60, 0xf, REGISTER + 0x1000, 0);
    fires("ASM24-UNCLAIMED").only(&rig.broken());
    // The window of one bridge leaves the register out.
    let rig = Rig::ready();
    rig.write_config(2, 0x20, 0xffff_2000);
    rig.packet(0x20, 0xf, MEMORY, 0);
    rig.completion();
    assert_eq!(rig.stream_in(REGISTER, 4), [0; 4]);
    assert_eq!(rig.broken(), ["ASM24-UNCLAIMED"]);

    let rig = Rig::ready();
    rig.out(0xf3, 0, 0, &[]);
    rig.packet(0x20, 0xf, MEMORY, 0);
    assert_eq!(rig.completion().3, 1);
    fires("ASM24-LINK").only(&rig.broken());

    let rig = Rig::new(Config::default());
    rig.packet(0x44, 0b0010, 0x18, 0x100);
    fires("ASM24-BUS-NUMBERS").only(&rig.broken());

    // One bridge lets the function's requests not through.
    let rig = Rig::ready();
    rig.write_config(3, 4, 3);
    let function = rig.bridge.function().unwrap();
    let reached = function.bus().reach(SRAM, "the function", &rig.journal);
    assert!(reached.is_none());
    assert_eq!(rig.broken(), ["PCI-DMA-GIVEN"]);
}

#[test]
fn mistakes_of_copies_are_named() {
    for (what, sectors, slots) in [
        ("none", 0, 0x0100),
        ("more than the slots", 33, 0x0100),
        ("over the end", 64, 0x021f),
    ] {
        let rig = Rig::ready();
        rig.out(0xf2, sectors, slots, &[]);
        assert_eq!(rig.broken(), ["ASM24-F2-SLOTS"], "{what}");
        fires("ASM24-F2-SLOTS").only(&rig.broken());
    }

    let rig = Rig::ready();
    rig.out(0xf2, 2, 0x0100, &[]);
    assert_eq!(rig.bulk_out(&[1; 512]), Ok(512));
    fires("ASM24-F2-LENGTH").only(&rig.broken());

    let rig = Rig::ready();
    rig.out(0xf2, 1, 0x0100, &[]);
    rig.f0(1, 0x60, 0xf, MEMORY, 1);
    fires("ASM24-TWO-ENGINES").only(&rig.broken());

    // Nobody has looked at the first; zeros nobody has to.
    let rig = Rig::ready();
    let send = |byte: u8| {
        rig.out(0xf2, 1, 0x0100, &[]);
        rig.bulk_out(&[byte; 512]).unwrap();
    };
    send(0);
    send(1);
    rig.sram(0, 512);
    send(2);
    rig.is_clean();
    send(3);
    fires("ASM24-SRAM-UNREAD").only(&rig.broken());
    // A look at the end of a window is not for what is in it.
    let rig = Rig::ready();
    for byte in [1, 2] {
        rig.out(0xf2, 32, 0x0100, &[]);
        rig.bulk_out(&[byte; 0x4000]).unwrap();
        rig.sram(0x3000, 0x1000);
    }
    fires("ASM24-SRAM-UNREAD").only(&rig.broken());
    // Zeros at its end do not make zeros of what came before.
    let rig = Rig::ready();
    for _ in 0..2 {
        rig.out(0xf2, 32, 0x0100, &[]);
        rig.bulk_out(&[1; 0x2000]).unwrap();
        rig.bulk_out(&[0; 0x2000]).unwrap();
    }
    fires("ASM24-SRAM-UNREAD").only(&rig.broken());

    let rig = Rig::set_up(Config {
        keeps: true,
        ..Config::default()
    });
    rig.out(0xf2, 1, 0x0100, &[]);
    rig.bridge.reset();
    fires("ASM24-RESET-ARMED").only(&rig.broken());
    let rig = Rig::ready();
    rig.out(0xf2, 1, 0x0100, &[]);
    rig.bridge.reset();
    rig.stream_out(MEMORY, &[0; 4]);
    rig.is_clean();
}
