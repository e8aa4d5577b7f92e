//! [`Rpc`]: calls to RM on GSP, and what it tells meanwhile.
//!
//! A call is a message; its answer comes back in the same form. One that is longer than a message may be goes on in
//! continuation records, and so does its answer. Between them GSP sends events, which are kept, and programs for the host,
//! which are run at once: GSP waits for them.
//!
//! An answer names its function, and not its call. Where one has not come, or something else was wrong, no other call is made
//! but the one that ends RM: its answer could be taken for that of another.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gsp/kernel_gsp.c (`_kgspRpcRecvPoll`,
//! `_kgspProcessRpcEvent`), src/nvidia/src/kernel/vgpu/rpc.c (`_issueRpcAndWait`, `_issueRpcLarge`), src/nvidia/inc/
//! libraries/resserv/resserv.h (handles of clients).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::gsp::{RpcHeader, RpcUnloading, event, function};
use drivers_spec::nv::mmio;
use drivers_spec::nv::mmio::falcon::GSP;
use hcq::sync::lock;
use hcq::wait::{Deadline, Look, poll_until};
use zerocopy::IntoBytes;

use super::card::Card;
use super::error::Cause;
use super::event::Event;
use super::falcon::Falcon;
use super::queue::{MESSAGE, Queues, header};
use super::sequencer::{self, Resume};

/// How long a call may take: one and a half times the vendor's limit for a GPU that computes.
const ANSWER: Duration = Duration::from_secs(6);
/// Events that are kept for those who have not looked yet.
const KEPT: usize = 256;
/// The first handle of a client, and the bits that follow it: those that RM gives to clients of the kernel
/// (`RS_CLIENT_HANDLE_BASE`; it has those from `RS_CLIENT_INTERNAL_HANDLE_BASE`, 0xc1e00000, on for itself).
const FIRST_CLIENT: u32 = 0xc1d0_0000;
const CLIENTS: u32 = 0xf_ffff;
/// Parameters that a message has room for.
const PARAMETERS: usize = MESSAGE - size_of::<RpcHeader>();

/// The calls to RM on a card's GSP.
pub(super) struct Rpc {
    card: Arc<Card>,
    branch: Branch,
    turn: Mutex<Turn>,
    /// How many clients there were.
    clients: AtomicU32,
}

/// What a call at a time has.
struct Turn {
    queues: Queues,
    resume: Resume,
    events: VecDeque<Event>,
    /// Why there are no calls any more.
    dead: Option<Cause>,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// What the message itself came to; 0 is good.
    pub result: u32,
    /// The parameters.
    pub bytes: Vec<u8>,
}

impl Rpc {
    /// Calls by these queues.
    pub(super) fn new(card: &Arc<Card>, branch: Branch, queues: Queues, resume: Resume) -> Rpc {
        Rpc {
            card: card.clone(),
            branch,
            turn: Mutex::new(Turn {
                queues,
                resume,
                events: VecDeque::new(),
                dead: None,
            }),
            clients: AtomicU32::new(0),
        }
    }

    /// The card.
    pub(super) fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// Whose structs messages have.
    pub(super) fn branch(&self) -> Branch {
        self.branch
    }

    /// The handle of a new client: no two of a card have the same.
    pub(super) fn client(&self) -> u32 {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        FIRST_CLIENT | number & CLIENTS
    }

    /// A turn, where nothing has gone wrong yet; what goes wrong in it is the cause of all that follow.
    fn turn<T>(&self, run: impl FnOnce(&mut Turn) -> Result<T, Cause>) -> Result<T, Cause> {
        let mut turn = lock(&self.turn);
        if let Some(first) = &turn.dead {
            return Err(first.clone());
        }
        let done = run(&mut turn);
        if let Err(cause) = &done {
            turn.dead = Some(cause.clone());
        }
        done
    }

    /// Sends what is not answered.
    ///
    /// # Errors
    /// [`Cause::Full`]; the bus's; the first of before.
    pub(super) fn tell(&self, number: u32, parameters: &[u8]) -> Result<(), Cause> {
        self.turn(|turn| self.send(turn, number, parameters).map(drop))
    }

    /// Sends a call, and waits for its answer. `what` is its name.
    ///
    /// # Errors
    /// [`Cause::Full`], [`Cause::Waited`], [`Cause::Crashed`], [`Cause::Message`]; the bus's; the first of before.
    pub(super) fn call(&self, what: &str, number: u32, parameters: &[u8]) -> Result<Answer, Cause> {
        self.turn(|turn| self.exchange(turn, what, number, parameters))
    }

    fn exchange(
        &self,
        turn: &mut Turn,
        what: &str,
        number: u32,
        parameters: &[u8],
    ) -> Result<Answer, Cause> {
        let records = self.send(turn, number, parameters)?;
        let what = format!("the answer to RPC {what}");
        let deadline = self.card.within(ANSWER);
        let (head, mut bytes) = self.wait(turn, &what, number, deadline)?;
        while records > 1 && head.rpc_result == 0 && bytes.len() < parameters.len() {
            let more = function::CONTINUATION_RECORD;
            let (_, rest) = self.wait(turn, &what, more, deadline)?;
            if rest.is_empty() {
                return Err(Cause::Message {
                    field: "length of a continuation record",
                    found: 0,
                    expected: "1 or more bytes of parameters".into(),
                });
            }
            bytes.extend(rest);
        }
        Ok(Answer {
            result: head.rpc_result,
            bytes,
        })
    }

    /// Tells RM to end, whatever has gone wrong before, and waits for its answer. No call is made after that.
    ///
    /// # Errors
    /// As [`Rpc::call`]; [`Cause::Rpc`]: it refuses.
    pub(super) fn end(&self) -> Result<(), Cause> {
        let mut turn = lock(&self.turn);
        let before = turn.dead.replace(Cause::Ended);
        // Where it would not hear it.
        if let Some(first) = before
            && (first.is_gone() || matches!(first, Cause::Crashed { .. } | Cause::Ended))
        {
            return Err(first);
        }
        let what = "UNLOADING_GUEST_DRIVER";
        let params = RpcUnloading::default().encode(self.branch);
        let number = function::UNLOADING_GUEST_DRIVER;
        match self.exchange(&mut turn, what, number, &params)?.result {
            0 => Ok(()),
            result => Err(Cause::Rpc {
                call: what.into(),
                result,
            }),
        }
    }

    /// From now on no call is made, and this is why, if there were any before.
    pub(super) fn close(&self, why: Cause) {
        lock(&self.turn).dead.get_or_insert(why);
    }

    /// Waits until GSP has made its queue, and RM on it has started.
    ///
    /// # Errors
    /// Those of [`Rpc::call`]; [`Cause::Header`]; [`Cause::Rpc`].
    pub(super) fn wait_started(&self, link: Duration, init: Duration) -> Result<(), Cause> {
        self.turn(|turn| {
            let linked = turn.queues.link(self.card.clock(), self.card.within(link));
            linked.map_err(|error| self.or_crashed(error))?;
            let what = "RM on GSP to start (GSP_INIT_DONE)";
            let deadline = self.card.within(init);
            let (head, _) = self.wait(turn, what, event::GSP_INIT_DONE, deadline)?;
            match head.rpc_result {
                0 => Ok(()),
                result => Err(Cause::Rpc {
                    call: "GSP_INIT_DONE".into(),
                    result,
                }),
            }
        })
    }

    /// What GSP has told since the last call: what is there now, and no more of it than is kept.
    ///
    /// # Errors
    /// [`Cause::Message`]; the bus's; the first of before.
    pub(super) fn events(&self) -> Result<Vec<Event>, Cause> {
        self.turn(|turn| {
            let deadline = self.card.within(ANSWER);
            for _ in 0..KEPT {
                let Some((head, bytes)) = turn.queues.receive(self.card.clock())? else {
                    break;
                };
                self.heard(turn, head.function, &bytes, deadline)?;
            }
            Ok(turn.events.drain(..).collect())
        })
    }

    /// Sends a message, in as many records as it needs.
    fn send(&self, turn: &mut Turn, number: u32, parameters: &[u8]) -> Result<usize, Cause> {
        let mut pieces: Vec<&[u8]> = parameters.chunks(PARAMETERS).collect();
        if pieces.is_empty() {
            pieces.push(&[]);
        }
        for (record, piece) in pieces.iter().enumerate() {
            let function = match record {
                0 => number,
                _ => function::CONTINUATION_RECORD,
            };
            let mut message = header(function, piece.len()).as_bytes().to_vec();
            message.extend(*piece);
            turn.queues.send(self.card.clock(), &message)?;
            self.card.io().write(&mmio::NV_PGSP_QUEUE_HEAD, 0)?;
        }
        Ok(pieces.len())
    }

    /// Waits for a message of that function; others are heard meanwhile.
    fn wait(
        &self,
        turn: &mut Turn,
        what: &str,
        wanted: u32,
        deadline: Deadline,
    ) -> Result<(RpcHeader, Vec<u8>), Cause> {
        let waited = poll_until(self.card.clock(), deadline, what, || {
            let mut heard = 0;
            while let Some((head, bytes)) = turn.queues.receive(self.card.clock())? {
                if head.function == wanted {
                    return Ok(Look::Done((head, bytes)));
                }
                self.heard(turn, head.function, &bytes, deadline)?;
                heard += 1;
                // However much it tells.
                if heard == KEPT || deadline.expired(self.card.clock()) {
                    break;
                }
            }
            Ok::<_, Cause>(Look::Not(heard as u64))
        });
        waited.map_err(|error| self.or_crashed(error))
    }

    /// Something came that nobody waits for.
    fn heard(
        &self,
        turn: &mut Turn,
        number: u32,
        bytes: &[u8],
        deadline: Deadline,
    ) -> Result<(), Cause> {
        if number == event::GSP_RUN_CPU_SEQUENCER {
            return sequencer::run(&self.card, &turn.resume, bytes, deadline);
        }
        if number < event::FIRST_EVENT {
            let name = function::name(number).unwrap_or("unknown");
            tracing::warn!(target: "hcq::nv::gsp", number, name, "late or unexpected GSP response ignored");
            return Ok(());
        }
        let told = Event::of(self.branch, number, bytes);
        if told == Event::NotifiersWritten {
            return self
                .send(turn, function::ECC_NOTIFIER_WRITE_ACK, &[])
                .map(drop);
        }
        match &told {
            Event::Log { xid, channel, text } => {
                tracing::warn!(target: "hcq::nv::gsp", xid, channel, text, "RM on GSP");
            }
            other => tracing::debug!(target: "hcq::nv::gsp", event = ?other, "RM on GSP"),
        }
        if turn.events.len() == KEPT {
            // Deaths of channels are told, however much is logged.
            let least = turn
                .events
                .iter()
                .position(|e| !matches!(e, Event::Died { .. }));
            turn.events.remove(least.unwrap_or_default());
        }
        turn.events.push_back(told);
        Ok(())
    }

    /// A wait that has ended because GSP does not run any more.
    fn or_crashed(&self, error: Cause) -> Cause {
        let Cause::Waited(waited) = error else {
            return error;
        };
        match Falcon::of(&self.card, GSP).riscv() {
            Ok((cpuctl, false)) => Cause::Crashed { waited, cpuctl },
            _ => Cause::Waited(waited),
        }
    }
}
