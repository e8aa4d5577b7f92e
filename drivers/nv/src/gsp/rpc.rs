//! [`Rpc`]: calls to RM on GSP, and what it tells meanwhile.
//!
//! A call is a message; its answer comes back in the same form. One that is longer than a message may be goes on in
//! continuation records, and so does its answer. Between them GSP sends events, which are kept, and programs for the host,
//! which are run at once: GSP waits for them.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gsp/kernel_gsp.c (`_kgspRpcRecvPoll`,
//! `_kgspProcessRpcEvent`), src/nvidia/src/kernel/vgpu/rpc.c (`_issueRpcAndWait`, `_issueRpcLarge`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::gsp::{RpcHeader, event, function};
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
/// Parameters that a message has room for.
const PARAMETERS: usize = MESSAGE - size_of::<RpcHeader>();

/// The calls to RM on a card's GSP.
pub(super) struct Rpc {
    card: Arc<Card>,
    branch: Branch,
    turn: Mutex<Turn>,
}

/// What a call at a time has.
struct Turn {
    queues: Queues,
    resume: Resume,
    events: VecDeque<Event>,
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
            }),
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

    /// Sends what is not answered.
    ///
    /// # Errors
    /// [`Cause::Full`]; the bus's.
    pub(super) fn tell(&self, number: u32, parameters: &[u8]) -> Result<(), Cause> {
        self.send(&mut lock(&self.turn), number, parameters)?;
        Ok(())
    }

    /// Sends a call, and waits for its answer. `what` is its name.
    ///
    /// # Errors
    /// [`Cause::Full`], [`Cause::Waited`], [`Cause::Crashed`], [`Cause::Message`]; the bus's.
    pub(super) fn call(&self, what: &str, number: u32, parameters: &[u8]) -> Result<Answer, Cause> {
        let mut turn = lock(&self.turn);
        let records = self.send(&mut turn, number, parameters)?;
        let what = format!("the answer to RPC {what}");
        let deadline = self.card.within(ANSWER);
        let (head, mut bytes) = self.wait(&mut turn, &what, number, deadline)?;
        while records > 1 && head.rpc_result == 0 && bytes.len() < parameters.len() {
            let more = function::CONTINUATION_RECORD;
            let (_, rest) = self.wait(&mut turn, &what, more, deadline)?;
            bytes.extend(rest);
        }
        Ok(Answer {
            result: head.rpc_result,
            bytes,
        })
    }

    /// Waits until GSP has made its queue, and RM on it has started.
    ///
    /// # Errors
    /// Those of [`Rpc::call`]; [`Cause::Header`].
    pub(super) fn wait_started(&self, link: Duration, init: Duration) -> Result<(), Cause> {
        let mut turn = lock(&self.turn);
        let linked = turn.queues.link(self.card.clock(), self.card.within(link));
        linked.map_err(|error| self.or_crashed(error))?;
        let what = "RM on GSP to start (GSP_INIT_DONE)";
        let deadline = self.card.within(init);
        let (head, _) = self.wait(&mut turn, what, event::GSP_INIT_DONE, deadline)?;
        match head.rpc_result {
            0 => Ok(()),
            result => Err(Cause::Rpc {
                call: "GSP_INIT_DONE".into(),
                result,
            }),
        }
    }

    /// What GSP has told since the last call.
    ///
    /// # Errors
    /// [`Cause::Message`]; the bus's.
    pub(super) fn events(&self) -> Result<Vec<Event>, Cause> {
        let mut turn = lock(&self.turn);
        while let Some((head, bytes)) = turn.queues.receive()? {
            self.heard(&mut turn, head.function, &bytes)?;
        }
        Ok(turn.events.drain(..).collect())
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
            while let Some((head, bytes)) = turn.queues.receive()? {
                if head.function == wanted {
                    return Ok(Look::Done((head, bytes)));
                }
                self.heard(turn, head.function, &bytes)?;
            }
            Ok::<_, Cause>(Look::Not(0))
        });
        waited.map_err(|error| self.or_crashed(error))
    }

    /// Something came that nobody waits for.
    fn heard(&self, turn: &mut Turn, number: u32, bytes: &[u8]) -> Result<(), Cause> {
        if number == event::GSP_RUN_CPU_SEQUENCER {
            return sequencer::run(&self.card, &turn.resume, bytes);
        }
        if number < event::FIRST_EVENT {
            let name = function::name(number).unwrap_or("unknown");
            tracing::warn!(target: "hcq::nv::gsp", number, name, "late or unexpected answer of GSP: ignored");
            return Ok(());
        }
        let told = Event::of(self.branch, number, bytes);
        match &told {
            Event::Log { xid, channel, text } => {
                tracing::warn!(target: "hcq::nv::gsp", xid, channel, text, "RM on GSP");
            }
            other => tracing::debug!(target: "hcq::nv::gsp", event = ?other, "RM on GSP"),
        }
        if turn.events.len() == KEPT {
            turn.events.pop_front();
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
