//! [`Event`]: what GSP tells without being asked.

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::gsp::{OsErrorLog, POST_EVENT_DATA, PostEvent, RcTriggered, event};
use drivers_spec::nv::status;

/// What GSP tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An event that was asked for.
    Posted {
        /// Whose it is.
        client: u32,
        /// The event's handle.
        event: u32,
        /// What has happened, `NV2080_NOTIFIERS_*`.
        index: u32,
        /// What is known of it.
        data: Vec<u8>,
    },
    /// A channel has died.
    Died {
        /// The engine, `NV2080_ENGINE_TYPE_*`.
        engine: u32,
        /// The channel's number.
        channel: u32,
        /// The Xid.
        xid: u32,
        /// The address and type of a memory fault, where the firmware tells it.
        fault: Option<(u64, u32)>,
    },
    /// RM has written the notifiers of channels whose deaths it has told, and waits until the driver says that it knows.
    NotifiersWritten,
    /// A line of RM's log.
    Log {
        /// The Xid.
        xid: u32,
        /// The channel's number.
        channel: u32,
        /// The line.
        text: String,
    },
    /// The MMU has put a fault into its buffer.
    FaultQueued,
    /// Anything else, by its number: no use is made of it.
    Other(u32),
}

/// What stands in place of an Xid where no channel has died, `ROBUST_CHANNEL_FAST_PATH_ERROR`.
///
/// Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/nverror.h of 535.113.01 (139), 550.163.01 and 570.144 (141);
/// src/nvidia/src/kernel/gpu/gsp/kernel_gsp.c (`_kgspRpcRCTriggered`).
fn fast_path(branch: Branch) -> u32 {
    match branch {
        Branch::R535 => 139,
        _ => status::ROBUST_CHANNEL_FAST_PATH_ERROR,
    }
}

/// The first bytes as a struct of the branch: what is missing at the end is zero.
fn read<T: Struct>(branch: Branch, bytes: &[u8]) -> T {
    let size = T::LAYOUT.size(branch);
    let mut whole = vec![0; size];
    whole
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    T::decode(branch, &whole).unwrap_or_else(|_| T::new_zeroed())
}

/// A line of RM's log as it may go to a terminal: what is no letter of it is written out.
fn plain(bytes: &[u8]) -> String {
    let mut text = String::new();
    for letter in String::from_utf8_lossy(bytes).trim_end().chars() {
        match letter == ' ' || letter.is_ascii_graphic() {
            true => text.push(letter),
            false => text.extend(letter.escape_default()),
        }
    }
    text
}

impl Event {
    /// The event of a message.
    pub(super) fn of(branch: Branch, function: u32, bytes: &[u8]) -> Event {
        match function {
            event::POST_EVENT => {
                let told: PostEvent = read(branch, bytes);
                let data = bytes.get(POST_EVENT_DATA..).unwrap_or_default();
                let size = (told.event_data_size as usize).min(data.len());
                Event::Posted {
                    client: told.h_client,
                    event: told.h_event,
                    index: told.notify_index,
                    data: data.get(..size).unwrap_or_default().to_vec(),
                }
            }
            event::RC_TRIGGERED => {
                let told: RcTriggered = read(branch, bytes);
                if told.except_type == fast_path(branch) {
                    return Event::NotifiersWritten;
                }
                let va =
                    u64::from(told.mmu_fault_addr_hi) << 32 | u64::from(told.mmu_fault_addr_lo);
                let is_fault = told.except_type == status::ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT;
                Event::Died {
                    engine: told.nv2080_engine_type,
                    channel: told.chid,
                    xid: told.except_type,
                    fault: (is_fault && branch >= Branch::R570)
                        .then_some((va, told.mmu_fault_type)),
                }
            }
            event::OS_ERROR_LOG => {
                let told: OsErrorLog = read(branch, bytes);
                let text = told.err_string.split(|byte| *byte == 0).next();
                let text = plain(text.unwrap_or_default());
                Event::Log {
                    xid: told.except_type,
                    channel: told.chid,
                    text,
                }
            }
            event::MMU_FAULT_QUEUED => Event::FaultQueued,
            other => Event::Other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_channel_is_told_with_its_fault() {
        let told = RcTriggered {
            nv2080_engine_type: 1,
            chid: 7,
            except_type: 31,
            mmu_fault_addr_lo: 0x1000,
            mmu_fault_addr_hi: 0x7f,
            mmu_fault_type: 2,
            ..RcTriggered::default()
        };
        let of = |branch, xid| {
            let told = RcTriggered {
                except_type: xid,
                ..told
            };
            Event::of(branch, event::RC_TRIGGERED, &told.encode(branch))
        };
        let died = |xid, fault| Event::Died {
            engine: 1,
            channel: 7,
            xid,
            fault,
        };
        let fault = Some((0x7f_0000_1000, 2));
        assert_eq!(of(Branch::R570, 31), died(31, fault));
        assert_eq!(of(Branch::R570, 13), died(13, None));
        // The message of older branches ends before.
        assert_eq!(of(Branch::R535, 31), died(31, None));
        assert_eq!(of(Branch::R550, 13), died(13, None));
        // No death, and its number has changed.
        assert_eq!(of(Branch::R535, 139), Event::NotifiersWritten);
        assert_eq!(of(Branch::R570, 141), Event::NotifiersWritten);
        assert_eq!(of(Branch::R570, 139), died(139, None));
    }

    #[test]
    fn lines_of_the_log_are_plain_text() {
        assert_eq!(plain(b"GPU at 'PCI:1' \"x\"\n"), "GPU at 'PCI:1' \"x\"");
        assert_eq!(plain(b"a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(plain("\u{202e}".as_bytes()), "\\u{202e}");
    }

    #[test]
    fn lines_of_the_log_and_data_of_events_end_where_they_should() {
        let mut log = OsErrorLog {
            except_type: 119,
            chid: 3,
            ..OsErrorLog::default()
        };
        log.err_string[..9].copy_from_slice(b"Xid text\n");
        for branch in [Branch::R535, Branch::R570] {
            let expected = Event::Log {
                xid: 119,
                channel: 3,
                text: "Xid text".into(),
            };
            let bytes = log.encode(branch);
            assert_eq!(Event::of(branch, event::OS_ERROR_LOG, &bytes), expected);
        }
        let posted = PostEvent {
            h_client: 0xc1d0_0004,
            h_event: 0xd000_0009,
            notify_index: 37,
            event_data_size: 2,
            ..PostEvent::default()
        };
        let mut bytes = posted.encode(Branch::R570);
        bytes.truncate(POST_EVENT_DATA);
        bytes.extend([1, 2, 3]);
        let event = Event::of(Branch::R570, event::POST_EVENT, &bytes);
        let Event::Posted { index, data, .. } = event else {
            panic!("{event:?}");
        };
        assert_eq!((index, data), (37, vec![1, 2]));
        // A message that ends early, and one that nobody knows.
        let event = Event::of(Branch::R570, event::POST_EVENT, &[1]);
        assert!(
            matches!(event, Event::Posted { client: 1, .. }),
            "{event:?}"
        );
        assert_eq!(Event::of(Branch::R570, 0x1023, &[]), Event::Other(0x1023));
    }
}
